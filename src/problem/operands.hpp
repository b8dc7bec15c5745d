// One T for each operand of a problem, by name: its view, its address, or its stride along an axis.
// The functions below walk the lists of members: for a new kind of operand, add a member and name
// it in its list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/check.hpp"

namespace attacca::problem {

template <class T>
struct ScaleOperands {
  T a{}, b{};

  template <class Self>
  static auto members(Self& self) {
    return std::tie(self.a, self.b);
  }
  friend bool operator==(const ScaleOperands&, const ScaleOperands&) = default;
};

template <class T>
struct ProductOperands {
  T a{}, b{};
  std::optional<ScaleOperands<T>> scales = {};  // of blocks of 8-bit floats
  std::optional<T> offsets = {};                // the ends of a grouped product's groups
  std::optional<T> rows = {};                   // the index of A's rows
  std::optional<T> code_scales = {};            // of the codes that B then is
  std::optional<T> code_zeros = {};             // their zero points

  template <class Self>
  static auto members(Self& self) {
    return std::tie(self.a, self.b, self.scales, self.offsets, self.rows, self.code_scales,
                    self.code_zeros);
  }
  friend bool operator==(const ProductOperands&, const ProductOperands&) = default;
};

template <class T>
struct Operands {
  std::vector<ProductOperands<T>> products = {};
  std::vector<T> kernel = {};                // the operands of a user's kernel
  std::vector<T> inputs = {}, outputs = {};  // the epilogue's
  std::vector<T> indices = {};               // of epilogue::indexed_inputs(), one each

  // The epilogue's alone.
  Operands of_epilogue() const {
    return {.inputs = inputs, .outputs = outputs, .indices = indices};
  }

  template <class Self>
  static auto members(Self& self) {
    return std::tie(self.products, self.kernel, self.inputs, self.outputs, self.indices);
  }
  friend bool operator==(const Operands&, const Operands&) = default;
};

namespace detail {

// The I-th members of groups of operands, as arguments of visit; for each I.
template <class Visit, class First, class... Rest>
void for_each_member(const Visit& visit, First& first, Rest&... rest) {
  const auto visit_member = [&](auto index) {
    constexpr size_t kIndex = decltype(index)::value;
    visit(std::get<kIndex>(std::remove_const_t<First>::members(first)),
          std::get<kIndex>(std::remove_const_t<Rest>::members(rest))...);
  };
  constexpr size_t kCount = std::tuple_size_v<decltype(std::remove_const_t<First>::members(first))>;
  [&]<size_t... I>(std::index_sequence<I...>) {
    (visit_member(std::integral_constant<size_t, I>{}), ...);
  }
  (std::make_index_sequence<kCount>{});
}

template <class Leaf, class Visit, class First, class... Rest>
void walk(const Visit& visit, First& first, Rest&... rest) {
  if constexpr (std::is_same_v<std::remove_const_t<First>, Leaf>) {
    visit(first, rest...);
  } else if constexpr (requires { first.size(); }) {
    ATTACCA_CHECK(((rest.size() == first.size()) && ...), "operands of two shapes");
    for (size_t i = 0; i < first.size(); ++i) walk<Leaf>(visit, first[i], rest[i]...);
  } else if constexpr (requires { first.has_value(); }) {
    ATTACCA_CHECK(((rest.has_value() == first.has_value()) && ...), "operands of two shapes");
    if (first) walk<Leaf>(visit, *first, *rest...);
  } else {
    for_each_member([&](auto&... members) { walk<Leaf>(visit, members...); }, first, rest...);
  }
}

// Gives `to` the shape of `from`.
template <class Leaf, class From, class To>
void set_shape(const From& from, To& to) {
  if constexpr (std::is_same_v<From, Leaf>) {
  } else if constexpr (requires { to.resize(size_t{}); }) {
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) set_shape<Leaf>(from[i], to[i]);
  } else if constexpr (requires { to.emplace(); }) {
    if (from) set_shape<Leaf>(*from, to.emplace());
  } else {
    for_each_member([](const auto& one, auto& other) { set_shape<Leaf>(one, other); }, from, to);
  }
}

// Gives each of `all`, which have their shapes, its part of the I-th member of `joined`.
template <size_t I, class T>
void take_member(const Operands<T>& joined, std::vector<Operands<T>>& all) {
  auto from = std::get<I>(Operands<T>::members(joined)).begin();
  for (Operands<T>& own : all) {
    auto& to = std::get<I>(Operands<T>::members(own));
    const auto end = from + static_cast<ptrdiff_t>(to.size());
    std::copy(from, end, to.begin());
    from = end;
  }
}

template <class T>
struct LeafOf;
template <class T>
struct LeafOf<Operands<T>> {
  using Type = T;
};

}  // namespace detail

// Calls visit(T&, Rest&...) for each operand, in the order of the members.
// REQUIRES: operands of one shape.
template <class Visit, class First, class... Rest>
void for_each(const Visit& visit, First& first, Rest&... rest) {
  detail::walk<typename detail::LeafOf<std::remove_const_t<First>>::Type>(visit, first, rest...);
}

template <class T>
std::vector<T> all(const Operands<T>& operands) {
  std::vector<T> list;
  for_each([&](const T& each) { list.push_back(each); }, operands);
  return list;
}

// The operands f(T, Rest...). REQUIRES: operands of one shape.
template <class F, class T, class... Rest>
auto map(const F& f, const Operands<T>& first, const Operands<Rest>&... rest) {
  Operands<std::decay_t<std::invoke_result_t<const F&, const T&, const Rest&...>>> made;
  detail::set_shape<T>(first, made);
  for_each([&](const T& from, auto& to, const Rest&... others) { to = f(from, others...); }, first,
           made, rest...);
  return made;
}

// The operands of all problems, in the order of the problems.
template <class T>
Operands<T> one_after_another(const std::vector<Operands<T>>& all) {
  Operands<T> joined;
  for (const Operands<T>& each : all)
    detail::for_each_member(
        [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); }, joined,
        each);
  return joined;
}

// The reverse: gives each of `all`, which have their shapes, its part.
template <class T>
void take_apart(const Operands<T>& joined, std::vector<Operands<T>>& all) {
  constexpr size_t kCount = std::tuple_size_v<decltype(Operands<T>::members(joined))>;
  [&]<size_t... I>(std::index_sequence<I...>) {
    (detail::take_member<I>(joined, all), ...);
  }
  (std::make_index_sequence<kCount>{});
}

}  // namespace attacca::problem
