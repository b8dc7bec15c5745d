#include "tune/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <tuple>

#include "ir/graph/tensor.hpp"
#include "ir/packed/header.hpp"
#include "tune/routing.hpp"

namespace attacca::tune {
namespace {

constexpr size_t kPageElements = size_t{1} << 22;  // random numbers made on the host, then repeated
constexpr size_t kMostSets = 8;
constexpr double kGraphSeconds = 2e-3;  // of launches in one graph
constexpr int kMostLaunches = 200;
constexpr int kRest = 3;  // Pace::Rested pauses for this many times as long as a graph took

// The elements that a view touches, from the first to the last. Its address counts as touched.
struct Span {
  int64_t low = 0, high = 0;

  void stretch(int64_t extent, int64_t stride) {
    (stride < 0 ? low : high) += (std::max<int64_t>(extent, 1) - 1) * stride;
  }
  int64_t first() const { return std::min<int64_t>(low, 0); }
  int64_t count() const { return high - first() + 1; }
};

problem::Operands<Span> spans_of(const problem::Problem& problem) {
  const auto span_of = [&](const problem::View& view, const problem::Extents& extents) {
    Span span{view.offset, view.offset};
    span.stretch(extents.rows, view.row_stride);
    span.stretch(extents.columns, view.column_stride);
    span.stretch(problem.batch, view.batch_stride);
    return span;
  };
  problem::Operands<Span> spans = map(span_of, problem.views, extents(problem));
  for (const problem::OuterAxis& axis : problem.outer)
    for_each([&](Span& span, int64_t stride) { span.stretch(axis.extent, stride); }, spans,
             axis.strides);
  for (size_t i = 0; i < problem.products.size(); ++i)
    if (const auto& groups = problem.products[i].groups) {
      const auto& views = problem.views.products[i];
      spans.products[i].b.stretch(*groups, views.b.batch_stride);
      if (views.scales) spans.products[i].scales->b.stretch(*groups, views.scales->b.batch_stride);
    }
  for (size_t i = 0; i < problem.epilogue.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].group_stride)
      spans.inputs[i].stretch(*problem.products[0].groups, problem.views.inputs[i].batch_stride);
  for (size_t i = 0; i < problem.products.size(); ++i)
    if (const auto& packed = problem.products[i].packed)
      spans.products[i].b = {0, packed->bytes / ir::size_of(problem.views.products[i].b.dtype) - 1};
  // Codes in the place of weights.
  for (size_t i = 0; i < problem.products.size(); ++i)
    if (const auto& codes = problem.products[i].codes) {
      const int64_t bytes = coded_weights(problem, i) * codes->bits / 8;
      const int64_t width = ir::size_of(codes->dtype);
      spans.products[i].b = {0, std::max<int64_t>((bytes + width - 1) / width, 1) - 1};
    }
  return spans;
}

// What an operand's memory holds.
struct Contents {
  double scale = 1;                          // of random numbers
  int64_t ends = 0;                          // not 0: the ends of groups that share so many rows
  int64_t rows = 0;                          // not 0: numbers of so many rows, in a random order
  std::optional<uint8_t> bytes = {};         // all alike
  bool codes = false;                        // random bytes
  bool is_first_a = false;                   // the memory is that of the first product's A
  const ir::PackedLayout* packed = nullptr;  // random, but for the header
};

problem::Operands<Contents> contents_of(const problem::Problem& problem) {
  problem::Operands<Contents> all =
      map([](const problem::View&) { return Contents{}; }, problem.views);
  for (size_t i = 0; i < problem.products.size(); ++i) {
    all.products[i].a.is_first_a = problem.repeats_first_a(i);
    if (auto& offsets = all.products[i].offsets) offsets->ends = std::max<int64_t>(problem.m, 1);
    if (auto& rows = all.products[i].rows)
      rows->rows = std::max<int64_t>(*problem.products[i].rows, 1);
    if (const auto& packed = problem.products[i].packed) all.products[i].b.packed = &*packed;
    // Weights about as large as other random ones.
    if (const auto& codes = problem.products[i].codes) {
      all.products[i].b.codes = true;
      if (codes->mxfp4)
        all.products[i].code_scales->bytes = 120;
      else
        all.products[i].code_scales->scale = codes->bits == 4 ? 1.0 / 256 : 1.0 / 4096;
    }
    all.products[i].b.scale = 1 / std::sqrt(double(std::max<int64_t>(problem.products[i].k, 1)));
  }
  for (size_t i = 0; i < all.indices.size(); ++i)
    all.indices[i].rows = std::max<int64_t>(problem.named_rows[i], 1);
  // A user's kernel may use integers as indices.
  for (size_t i = 0; i < all.kernel.size(); ++i)
    if (!ir::is_float(problem.views.kernel[i].dtype)) all.kernel[i].bytes = 0;
  return all;
}

// Random numbers of a dtype, scaled. Integers ignore the scale.
std::vector<std::byte> random_page(ir::DType dtype, double scale, size_t elements) {
  std::mt19937_64 random(20260521);
  std::normal_distribution<double> normal(0, scale);
  constexpr size_t kDistinct = 1 << 16;
  const ir::Tensor values = [&] {
    ir::Tensor made = *ir::Tensor::make(dtype, {kDistinct});
    for (size_t i = 0; i < kDistinct; ++i) {
      if (ir::is_float(dtype))
        made.set_number(static_cast<int64_t>(i), normal(random));
      else
        made.set_integer(static_cast<int64_t>(i), static_cast<int64_t>(random()));
    }
    return made;
  }();
  const auto width = static_cast<size_t>(ir::size_of(dtype));
  std::vector<std::byte> page(elements * width);
  uint64_t drawn = 0;  // of 16 bits each
  for (size_t i = 0; i < elements; ++i, drawn >>= 16) {
    if (i % 4 == 0) drawn = random();
    std::memcpy(page.data() + i * width, values.data() + drawn % kDistinct * width, width);
  }
  return page;
}

Status fill_ends(gpu::DeviceMemory& memory, Routing routing, int64_t groups, int64_t rows) {
  const std::vector<int32_t> ends = group_ends(routing, groups, rows);
  return memory.copy_from(ends.data(), ends.size() * sizeof(int32_t));
}

// An index of so many rows.
template <class Integer>
Status fill_rows(gpu::DeviceMemory& memory, int64_t count, int64_t rows) {
  std::vector<Integer> index(static_cast<size_t>(count));
  std::mt19937 random(20261125);
  for (Integer& row : index) row = static_cast<Integer>(random() % static_cast<uint64_t>(rows));
  return memory.copy_from(index.data(), index.size() * sizeof(Integer));
}

// Writes the header of packed weights whose scales are usual ones; kernels read its flags alone.
Status write_header(gpu::DeviceMemory& memory, const ir::PackedLayout& layout) {
  const ir::PackedHeader header = ir::packed_header(layout, 0, ir::may_fold(layout.packing));
  return memory.copy_from(header.data(), header.size());
}

// Pages made so far, by dtype and scale.
using RandomPages = std::map<std::tuple<ir::DType, double, size_t>, std::vector<std::byte>>;

// Fills device memory with a page from the host, then with copies of what is already there.
Status fill_random(const gpu::Device& device, gpu::DeviceMemory& memory, ir::DType dtype,
                   double scale, RandomPages& pages) {
  const auto width = static_cast<size_t>(ir::size_of(dtype));
  const size_t elements = std::min(memory.size() / width, kPageElements);
  std::vector<std::byte>& page = pages[{dtype, scale, elements}];
  if (page.empty()) page = random_page(dtype, scale, elements);
  ATTACCA_TRY_VOID(memory.copy_from(page.data(), page.size()));
  // An odd step, so that rows of a power of two never hold the same numbers.
  const size_t step = page.size() - (page.size() > 97 * width ? 97 * width : 0);
  for (size_t done = page.size(); done < memory.size();) {
    const size_t bytes = std::min(step, memory.size() - done);
    ATTACCA_TRY_VOID(device.call(device.driver().memcpy_on_device, memory.address() + done,
                                 memory.address(), bytes, gpu::StreamHandle{}));
    done += bytes;
  }
  return device.synchronize();
}

}  // namespace

Result<OperandSets> OperandSets::make(const std::shared_ptr<launch::Toolbox>& toolbox,
                                      const problem::Problem& problem) {
  const gpu::Device& device = toolbox->device();
  const problem::Operands<Span> spans = spans_of(problem);
  const problem::Operands<Contents> contents = contents_of(problem);
  const auto bytes_of = [](const Span& span, const problem::View& view) {
    return static_cast<size_t>(span.count() * ir::size_of(view.dtype));
  };
  size_t bytes = 0;
  for_each([&](const Span& span, const problem::View& view) { bytes += bytes_of(span, view); },
           spans, problem.views);
  const auto cache = static_cast<size_t>(device.info().l2_bytes);
  const size_t own = std::clamp<size_t>(2 * cache / std::max<size_t>(bytes, 1) + 1, 1, kMostSets);
  const bool is_grouped = !problem.products.empty() && problem.products[0].groups;
  // As many of each routing.
  const size_t sets = is_grouped ? own + own % 2 : own;
  OperandSets made;
  RandomPages pages;
  const auto make_one = [&](Routing routing, const problem::View& view, const Span& span,
                            const Contents& content) -> Result<void*> {
    ATTACCA_TRY(auto memory, gpu::DeviceMemory::allocate(device, bytes_of(span, view) + 16));
    ATTACCA_TRY_VOID(content.bytes  ? memory.fill(*content.bytes)
                     : content.ends ? fill_ends(memory, routing, span.count(), content.ends)
                     : content.rows && view.dtype == ir::DType::S64
                         ? fill_rows<int64_t>(memory, span.count(), content.rows)
                     : content.rows
                         ? fill_rows<int32_t>(memory, span.count(), content.rows)
                         : fill_random(device, memory, content.codes ? ir::DType::U8 : view.dtype,
                                       content.scale, pages));
    if (content.packed) ATTACCA_TRY_VOID(write_header(memory, *content.packed));
    const int64_t width = ir::size_of(view.dtype);
    // As misaligned as the problem says.
    const int64_t shift =
        view.alignment >= 16 ? 0 : (view.alignment - view.offset * width % 16 + 16) % 16;
    void* const base = static_cast<char*>(memory.pointer()) - span.first() * width + shift;
    made.memory_.push_back(std::move(memory));
    return base;
  };
  const auto routing_of = [](size_t set) { return set % 2 == 0 ? Routing::Alike : Routing::Zipf; };
  for (size_t set = 0; set < own; ++set) {
    problem::Addresses& at = made.sets_.emplace_back();
    Status status;
    at = map(
        [&](const problem::View& view, const Span& span, const Contents& content) -> void* {
          if (!status || content.is_first_a) return nullptr;
          const Result<void*> one = make_one(routing_of(set), view, span, content);
          if (!one) status = tl::make_unexpected(one.error());
          return one.value_or(nullptr);
        },
        problem.views, spans, contents);
    ATTACCA_TRY_VOID(status);
    for (size_t i = 0; i < at.products.size(); ++i)
      if (contents.products[i].a.is_first_a) at.products[i].a = at.products[0].a;
  }
  for (size_t set = own; set < sets; ++set) {
    problem::Addresses at = made.sets_[set - own];
    for (size_t i = 0; i < at.products.size(); ++i) {
      ATTACCA_TRY(at.products[i].offsets,
                  make_one(routing_of(set), *problem.views.products[i].offsets,
                           *spans.products[i].offsets, *contents.products[i].offsets));
    }
    made.sets_.push_back(std::move(at));
  }
  return made;
}

Launches launches_of(const launch::Runnable& runnable,
                     const std::vector<problem::Addresses>& operands) {
  return {[&](size_t set, void* workspace, gpu::StreamHandle stream) {
            return runnable.launch(operands[set], workspace, stream);
          },
          operands.size(), runnable.workspace_bytes()};
}

Result<Timed> Timed::make(const std::shared_ptr<launch::Toolbox>& toolbox,
                          const Launches& launches) {
  const gpu::Device& device = toolbox->device();
  Timed made;
  made.toolbox_ = toolbox;
  ATTACCA_TRY_VOID(device.make_current());
  ATTACCA_TRY(made.stream_, gpu::Stream::create(device));
  ATTACCA_TRY(made.begin_, gpu::Event::create(device));
  ATTACCA_TRY(made.end_, gpu::Event::create(device));
  ATTACCA_TRY(made.workspace_, gpu::DeviceMemory::allocate(device, launches.workspace_bytes));
  void* workspace = made.workspace_.pointer();
  const gpu::StreamHandle stream = made.stream_.get();
  // The first launch warms up, the second says how many make a graph.
  float milliseconds = 0;
  for (int i = 0; i < 2; ++i) {
    ATTACCA_TRY_VOID(made.begin_.record(stream));
    ATTACCA_TRY_VOID(launches.launch(0, workspace, stream));
    ATTACCA_TRY_VOID(made.end_.record(stream));
    ATTACCA_TRY_VOID(made.end_.synchronize());
    ATTACCA_TRY(milliseconds, made.end_.since(made.begin_));
  }
  const auto sets = static_cast<int>(launches.sets);
  const int wanted = static_cast<int>(kGraphSeconds / std::max(1e-6, double(milliseconds) * 1e-3));
  made.launches_ =
      std::clamp((wanted + sets - 1) / sets * sets, sets, std::max(sets, kMostLaunches));
  ATTACCA_TRY(
      made.graph_, gpu::GraphExec::capture(device, stream, [&]() -> Status {
        for (int i = 0; i < made.launches_; ++i)
          ATTACCA_TRY_VOID(launches.launch(static_cast<size_t>(i % sets), workspace, stream));
        return {};
      }));
  ATTACCA_TRY_VOID(made.graph_.launch(stream));
  ATTACCA_TRY_VOID(made.stream_.synchronize());
  return made;
}

Result<double> Timed::once() {
  const gpu::StreamHandle stream = stream_.get();
  ATTACCA_TRY_VOID(begin_.record(stream));
  ATTACCA_TRY_VOID(graph_.launch(stream));
  ATTACCA_TRY_VOID(end_.record(stream));
  ATTACCA_TRY_VOID(end_.synchronize());
  ATTACCA_TRY(const float milliseconds, end_.since(begin_));
  return double(milliseconds) * 1e-3 / launches_;
}

Result<std::vector<std::vector<double>>> times_in_turns(std::vector<Timed>& timed, int rounds,
                                                        Pace pace) {
  std::vector<std::vector<double>> seconds(timed.size());
  std::vector<size_t> order(timed.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(20261122);
  for (int round = 0; round < rounds; ++round) {
    // A kernel that needs much power slows the next one down.
    if (pace == Pace::Sustained) std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const auto begin = std::chrono::steady_clock::now();
      ATTACCA_TRY(const double once, timed[i].once());
      seconds[i].push_back(once);
      if (pace == Pace::Rested)
        std::this_thread::sleep_for(kRest * (std::chrono::steady_clock::now() - begin));
    }
  }
  return seconds;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> typical_seconds(const std::vector<std::vector<double>>& rounds) {
  std::vector<double> medians;
  for (const std::vector<double>& each : rounds) medians.push_back(median(each));
  std::vector<std::vector<double>> at_one_rate = rounds;
  for (size_t round = 0; !rounds.empty() && round < rounds[0].size(); ++round) {
    std::vector<double> slowness;
    for (size_t i = 0; i < rounds.size(); ++i) slowness.push_back(rounds[i][round] / medians[i]);
    const double usual = median(slowness);
    for (std::vector<double>& each : at_one_rate) each[round] /= usual;
  }
  std::vector<double> typical;
  for (const std::vector<double>& each : at_one_rate) typical.push_back(median(each));
  return typical;
}

Result<std::vector<double>> time_in_turns(std::vector<Timed>& timed, int rounds, Pace pace) {
  ATTACCA_TRY(const auto seconds, times_in_turns(timed, rounds, pace));
  return typical_seconds(seconds);
}

}  // namespace attacca::tune
