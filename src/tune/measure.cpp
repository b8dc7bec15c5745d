#include "tune/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>

#include "ir/graph/tensor.hpp"

namespace attacca::tune {
namespace {

constexpr size_t kPageElements = size_t{1} << 22;  // random numbers made on the host, then repeated
constexpr size_t kMostSets = 8;
constexpr double kGraphSeconds = 2e-3;  // of launches in one graph
constexpr int kMostLaunches = 200;
constexpr int kRest = 3;  // times as long as a graph took, of Pace::Rested

// From the first byte that a view touches to the last, in elements.
struct Span {
  int64_t first = 0, count = 0;
};

Span span_of(const problem::View& view, int64_t rows, int64_t columns, int64_t batch,
             const std::vector<problem::OuterAxis>& outer, size_t index) {
  int64_t low = view.offset, high = view.offset;
  const auto stretch = [&](int64_t extent, int64_t stride) {
    (stride < 0 ? low : high) += (extent - 1) * stride;
  };
  stretch(rows, view.row_stride);
  stretch(columns, view.column_stride);
  stretch(batch, view.batch_stride);
  for (const problem::OuterAxis& axis : outer) stretch(axis.extent, axis.strides[index]);
  return {std::min<int64_t>(low, 0), high - std::min<int64_t>(low, 0) + 1};
}

// Whether a view is the A that the first product reads too, as of a gate.
bool repeats_first_a(const problem::Problem& problem, size_t view) {
  return view > 0 && view < 2 * problem.products.size() && view % 2 == 0 &&
         problem.products[view / 2].a == problem.products[0].a &&
         problem.products[view / 2].a_source == problem.products[0].a_source;
}

// The layout of an operand that is a packed tensor, else nullptr.
const ir::PackedLayout* packed_at(const problem::Problem& problem, size_t view) {
  if (view >= 2 * problem.products.size() || view % 2 == 0) return nullptr;
  const auto& packed = problem.products[view / 2].packed;
  return packed ? &*packed : nullptr;
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
  for (size_t i = 0; i < elements; ++i)
    std::copy_n(values.data() + (random() >> 48) * width, width, page.data() + i * width);
  return page;
}

// Pages made so far, by what they are made of.
using RandomPages = std::map<std::tuple<ir::DType, double, size_t>, std::vector<std::byte>>;

// Fills device memory by a page from the host and copies of what is there already.
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

Result<Operands> Operands::make(const std::shared_ptr<launch::Toolbox>& toolbox,
                                const problem::Problem& problem) {
  const gpu::Device& device = toolbox->device();
  const std::vector<const problem::View*> views = problem.views();
  std::vector<Span> spans;
  size_t bytes = 0;
  const size_t kernel_operands = problem.kernel ? problem.kernel->operands.size() : 0;
  for (size_t i = 0; i < views.size(); ++i) {
    if (i < kernel_operands) {
      spans.push_back({0, problem.kernel->operands[i].elements});
      bytes += static_cast<size_t>(spans.back().count * ir::size_of(views[i]->dtype));
      continue;
    }
    int64_t rows = problem.m, columns = problem.n;
    if (i < 2 * problem.products.size()) {
      const problem::Product& product = problem.products[i / 2];
      (i % 2 == 0 ? columns : rows) = product.k;
      if (i % 2 == 1) columns = product.n;
    }
    for (size_t each = 0; each < problem.products.size(); ++each)
      if (const problem::Product& product = problem.products[each]; product.scales) {
        const int64_t blocks = (product.k + problem::kScaleBlock - 1) / problem::kScaleBlock;
        if (i == problem.scales_view(each)) columns = blocks;
        if (i == problem.scales_view(each) + 1) {
          rows = blocks;
          columns = (product.n + problem::kScaleBlock - 1) / problem::kScaleBlock;
        }
      }
    spans.push_back(span_of(*views[i], std::max<int64_t>(rows, 1), std::max<int64_t>(columns, 1),
                            problem.batch, problem.outer, i - kernel_operands));
    // Kernels do not read a packed tensor's header: any numbers do.
    if (const ir::PackedLayout* packed = packed_at(problem, i))
      spans.back() = {0, packed->bytes / ir::size_of(views[i]->dtype)};
    bytes += static_cast<size_t>(spans.back().count * ir::size_of(views[i]->dtype));
  }
  const auto cache = static_cast<size_t>(device.info().l2_bytes);
  const size_t sets = std::clamp<size_t>(2 * cache / std::max<size_t>(bytes, 1) + 1, 1, kMostSets);
  Operands made;
  RandomPages pages;
  for (size_t set = 0; set < sets; ++set) {
    problem::Pointers pointers;
    for (size_t i = 0; i < views.size(); ++i) {
      if (repeats_first_a(problem, i)) {
        pointers.push_back(pointers[0]);
        continue;
      }
      const auto width = ir::size_of(views[i]->dtype);
      ATTACCA_TRY(auto memory, gpu::DeviceMemory::allocate(
                                   device, static_cast<size_t>(spans[i].count * width) + 16));
      const bool is_b = i < 2 * problem.products.size() && i % 2 == 1;
      const double scale =
          is_b ? 1 / std::sqrt(double(std::max<int64_t>(problem.products[i / 2].k, 1))) : 1;
      // A user's kernel may take integers for places.
      if (i < kernel_operands && !ir::is_float(views[i]->dtype))
        ATTACCA_TRY_VOID(memory.fill(0));
      else
        ATTACCA_TRY_VOID(fill_random(device, memory, views[i]->dtype, scale, pages));
      // As misaligned as the problem says.
      const int64_t shift = views[i]->alignment >= 16
                                ? 0
                                : (views[i]->alignment - views[i]->offset * width % 16 + 16) % 16;
      pointers.push_back(static_cast<char*>(memory.pointer()) - spans[i].first * width + shift);
      made.memory_.push_back(std::move(memory));
    }
    made.sets_.push_back(std::move(pointers));
  }
  return made;
}

Result<Timed> Timed::make(const std::shared_ptr<launch::Toolbox>& toolbox,
                          const launch::Runnable& runnable, const Operands& operands) {
  const gpu::Device& device = toolbox->device();
  Timed made;
  made.toolbox_ = toolbox;
  ATTACCA_TRY_VOID(device.make_current());
  ATTACCA_TRY(made.stream_, gpu::Stream::create(device));
  ATTACCA_TRY(made.begin_, gpu::Event::create(device));
  ATTACCA_TRY(made.end_, gpu::Event::create(device));
  ATTACCA_TRY(made.workspace_, gpu::DeviceMemory::allocate(device, runnable.workspace_bytes()));
  void* workspace = made.workspace_.pointer();
  const gpu::StreamHandle stream = made.stream_.get();
  // The first launch warms up, the second says how many make a graph.
  float milliseconds = 0;
  for (int i = 0; i < 2; ++i) {
    ATTACCA_TRY_VOID(made.begin_.record(stream));
    ATTACCA_TRY_VOID(runnable.launch(operands.set(0), workspace, stream));
    ATTACCA_TRY_VOID(made.end_.record(stream));
    ATTACCA_TRY_VOID(made.end_.synchronize());
    ATTACCA_TRY(milliseconds, made.end_.since(made.begin_));
  }
  const auto sets = static_cast<int>(operands.sets());
  const int wanted = static_cast<int>(kGraphSeconds / std::max(1e-6, double(milliseconds) * 1e-3));
  made.launches_ =
      std::clamp((wanted + sets - 1) / sets * sets, sets, std::max(sets, kMostLaunches));
  ATTACCA_TRY(made.graph_, gpu::GraphExec::capture(device, stream, [&]() -> Status {
                for (int i = 0; i < made.launches_; ++i)
                  ATTACCA_TRY_VOID(runnable.launch(operands.set(static_cast<size_t>(i % sets)),
                                                   workspace, stream));
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
    // Who comes after one that needs much power has less of it.
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

Result<std::vector<double>> time_in_turns(std::vector<Timed>& timed, int rounds, Pace pace) {
  ATTACCA_TRY(auto seconds, times_in_turns(timed, rounds, pace));
  std::vector<double> medians;
  for (std::vector<double>& each : seconds) {
    std::nth_element(each.begin(), each.begin() + static_cast<ptrdiff_t>(each.size() / 2),
                     each.end());
    medians.push_back(each[each.size() / 2]);
  }
  return medians;
}

}  // namespace attacca::tune
