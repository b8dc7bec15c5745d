// Calls that were checked and prepared before. A call with the same layouts is launched at once.
#include <array>
#include <memory>
#include <unordered_map>

#include "nanobind/stl/optional.h"
#include "nanobind/stl/tuple.h"
#include "nanobind/stl/vector.h"
#include "python/frameworks.hpp"

namespace nb = nanobind;

namespace attacca::python {
namespace {

// How a result is made: function(*layout, dtype), or function(*layout, dtype=, device=).
using Made = std::tuple<nb::object, nb::object, nb::object, nb::object>;
struct Allocation {
  nb::object function;
  nb::tuple layout;          // its shape, and its strides if the function takes them
  nb::object dtype, device;  // device: may be None

  nb::object make() const {
    static PyObject* const names =
        PyTuple_Pack(2, PyUnicode_InternFromString("dtype"), PyUnicode_InternFromString("device"));
    const size_t places = layout.size();
    std::array<PyObject*, 4> arguments{};
    for (size_t i = 0; i < places; ++i) arguments[i] = layout[i].ptr();
    arguments[places] = dtype.ptr();
    arguments[places + 1] = device.ptr();
    const bool on_device = !device.is_none();
    PyObject* made =
        PyObject_Vectorcall(function.ptr(), arguments.data(), on_device ? places : places + 1,
                            on_device ? names : nullptr);
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
  }
};

Allocation allocation(const Made& made) {
  const auto& [function, layout, dtype, device] = made;
  return {function, nb::cast<nb::tuple>(layout), dtype, device};
}

// What a launch on a GPU needs besides: the stream, and the workspace.
using Queued = std::tuple<nb::object, nb::object, std::optional<Made>>;
struct OnGpu {
  nb::object current_stream, index;
  std::optional<Allocation> workspace;
};

struct Call {
  nb::object owner;  // of the instance
  const Instance* instance = nullptr;
  std::vector<size_t> order;  // the instance's inputs among the call's
  std::vector<Allocation> results;
  std::optional<OnGpu> gpu;
};

struct Hash {
  using is_transparent = void;
  size_t operator()(std::span<const int64_t> words) const {
    uint64_t hash = words.size();
    for (const int64_t word : words) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return hash;
  }
};
struct Equal {
  using is_transparent = void;
  bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
};

// The items of a tuple or list.
class Items {
 public:
  explicit Items(nb::handle all) : all_(all), tuple_(PyTuple_Check(all.ptr())) {}
  size_t size() const {
    return static_cast<size_t>(tuple_ ? PyTuple_Size(all_.ptr()) : PyList_Size(all_.ptr()));
  }
  PyObject* operator[](size_t i) const {
    const auto at = static_cast<Py_ssize_t>(i);
    return tuple_ ? PyTuple_GetItem(all_.ptr(), at) : PyList_GetItem(all_.ptr(), at);
  }

 private:
  nb::handle all_;
  bool tuple_;
};

bool is_listed(nb::handle value) {
  return PyTuple_Check(value.ptr()) || PyList_Check(value.ptr());
}

bool add_all(CallKey& key, nb::handle tensors, bool writable) {
  const Items items(tensors);
  for (size_t i = 0; i < items.size(); ++i)
    if (!key.add(items[i], writable)) return false;
  return true;
}

// Which inputs are the same object as an earlier one: a function that is traced may ask for that
// (`x is y`).
bool add_repeated(CallKey& key, const Items& inputs) {
  for (size_t i = 1; i < inputs.size(); ++i) {
    for (size_t earlier = 0; earlier < i; ++earlier) {
      if (inputs[i] != inputs[earlier]) continue;
      if (!key.add_number(static_cast<uint32_t>(i << 16 | earlier << 1))) return false;
      break;
    }
  }
  return true;
}

// False: a call with other tensors than those of NumPy and torch.
bool read(CallKey& key, nb::handle inputs, nb::handle out) {
  if (!is_listed(inputs) || !add_all(key, inputs, false)) return false;
  if (!add_repeated(key, Items(inputs))) return false;
  // Without it f(x, w, out=y) would have the key of f(x, w, y).
  if (!key.add_number(out.is_none() ? 0 : 1)) return false;
  if (out.is_none()) return true;
  return is_listed(out) ? add_all(key, out, true) : key.add(out.ptr(), true);
}

void tell_written(nb::handle out) {
  if (!is_listed(out)) return wrote(out.ptr());
  const Items items(out);
  for (size_t i = 0; i < items.size(); ++i) wrote(items[i]);
}

// A call's addresses in the instance's order.
std::vector<const void*> ordered(const Call& call, std::span<void* const> given) {
  std::vector<const void*> from;
  from.reserve(call.order.size());
  for (const size_t position : call.order) from.push_back(given[position]);
  return from;
}

void launch(const Call& call, std::span<const void* const> from, std::span<void* const> into) {
  Workspace scratch;
  void* stream = nullptr;
  nb::object memory;  // until the launch: the allocator reuses it in the stream's order
  if (call.gpu) {
    if (call.gpu->workspace) {
      memory = call.gpu->workspace->make();
      CallKey key;
      if (!key.add(memory.ptr(), true)) nb::raise("a workspace without an address");
      scratch = {key.addresses()[0], call.instance->workspace_bytes()};
    }
    stream = PyLong_AsVoidPtr(call.gpu->current_stream(call.gpu->index).ptr());
  }
  check(unlocked([&] {
    return Status(attacca_instance_run(call.instance->handle(), from.data(), from.size(),
                                       into.data(), into.size(), scratch.data, scratch.bytes,
                                       stream));
  }));
}

class CallCache {
 public:
  // The results, if such a call was added; else None.
  nb::object run(nb::handle inputs, nb::handle out, bool watched) const {
    CallKey key;
    if (!read(key, inputs, out) || !key.finish(watched)) return nb::none();
    const auto found = calls_.find(key.words());
    if (found == calls_.end()) return nb::none();
    const std::shared_ptr<const Call> call = found->second;  // others may change the cache
    const std::vector<const void*> from = ordered(*call, key.addresses());
    if (!out.is_none()) {
      launch(*call, from, key.addresses().subspan(Items(inputs).size()));
      if (watched) tell_written(out);
      return is_listed(out) ? nb::steal(PySequence_Tuple(out.ptr())) : nb::borrow(out);
    }
    std::vector<nb::object> results;
    CallKey into;
    for (const Allocation& each : call->results) {
      results.push_back(each.make());
      if (!into.add(results.back().ptr(), true)) return nb::none();
    }
    launch(*call, from, into.addresses());
    return results.size() == 1 ? results[0] : nb::object(nb::tuple(nb::cast(results)));
  }

  void add(nb::handle inputs, nb::handle out, nb::object instance, std::vector<size_t> order,
           const std::vector<Made>& results, const std::optional<Queued>& gpu) {
    CallKey key;
    if (!read(key, inputs, out)) return;
    auto call = std::make_shared<Call>();
    call->instance = nb::cast<const Instance*>(instance);
    call->owner = std::move(instance);
    call->order = std::move(order);
    for (const Made& each : results) call->results.push_back(allocation(each));
    if (gpu) {
      const auto& [stream, index, workspace] = *gpu;
      call->gpu = OnGpu{stream, index, {}};
      if (workspace) call->gpu->workspace = allocation(*workspace);
    }
    if (calls_.size() >= kMost) calls_.clear();
    calls_.insert_or_assign({key.words().begin(), key.words().end()}, std::move(call));
  }

  size_t size() const { return calls_.size(); }

 private:
  static constexpr size_t kMost = 256;
  std::unordered_map<std::vector<int64_t>, std::shared_ptr<const Call>, Hash, Equal> calls_;
};

}  // namespace

void bind_call_cache(nb::module_& module) {
  nb::class_<CallCache>(module, "CallCache")
      .def(nb::init<>())
      .def("__len__", &CallCache::size)
      .def("run", &CallCache::run, nb::arg("inputs"), nb::arg("out").none(),
           nb::arg("watched") = true,
           nb::sig("def run(self, inputs: Sequence[object], out: object, watched: bool = True) -> "
                   "object"),
           "Launches a call that was added, and returns its results: a tuple where there are "
           "several or `out` is\na list. None: such a call was not added, or torch would "
           "differentiate it or, if `watched`, record it.")
      .def("add", &CallCache::add, nb::arg("inputs"), nb::arg("out").none(), nb::arg("instance"),
           nb::arg("order"), nb::arg("results"), nb::arg("gpu").none(),
           "Adds a call that was checked: calls with tensors of the same layouts are launched from "
           "now on.\n`order`: the instance's inputs among the call's. `results`: how each is made "
           "where out is None:\nfunction, layout, dtype, device. `gpu`: the function that returns "
           "its current stream, its number, and\nhow the workspace is made.");
}

}  // namespace attacca::python
