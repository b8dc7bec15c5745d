// Softmax and norms, row by row.
#include "run/cpu/executable.hpp"
#include "run/cpu/kernels/rows.hpp"
#include "run/cpu/thread_pool.hpp"
#include "run/shared/extents.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Tensor;

// Elements whose rows are worth another thread, and those of a task.
constexpr int64_t kWorthRows = 16 * 1024;
constexpr int64_t kTaskOfRows = 16 * 1024;

class RowGroupExecutable : public Executable {
 public:
  explicit RowGroupExecutable(const RowGroup& group) : group_(group) {}

  Status run(RunState& state, const Sizes*) const override {
    ATTACCA_TRY(const Tensor x, state.values[group_.x.id].contiguous());
    const size_t kept = x.shape().size() - group_.reduced_axes;
    const int64_t rows = count_of(x.shape(), 0, kept), columns = count_of(x.shape(), kept);
    Tensor result, statistic;
    if (group_.result) {
      ATTACCA_TRY(result, state.result(*group_.result, DType::F32, x.shape()));
    }
    if (group_.statistic) {
      std::vector<int64_t> shape = x.shape();
      std::fill(shape.begin() + static_cast<int64_t>(kept), shape.end(), 1);
      ATTACCA_TRY(statistic, state.result(*group_.statistic, DType::F32, std::move(shape)));
    }
    compute(x.as<float>(), rows, columns, result.as<float>(), statistic.as<float>(), state.threads);
    if (group_.result) state.values[group_.result->id] = std::move(result);
    if (group_.statistic) state.values[group_.statistic->id] = std::move(statistic);
    return {};
  }

 private:
  void compute(const float* x, int64_t rows, int64_t columns, float* result, float* statistic,
               int threads) const {
    const RowKernels& kernels = row_kernels();
    const auto n = static_cast<size_t>(columns);
    const int64_t some = std::max<int64_t>(kTaskOfRows / std::max<int64_t>(columns, 1), 1);
    threads = worth(threads, rows * columns, kWorthRows);
    ThreadPool::shared().run(threads, divide_up(rows, some), [&](int64_t task) {
      for (int64_t row = task * some; row < std::min(rows, (task + 1) * some); ++row) {
        const float* from = x + row * columns;
        switch (group_.op) {
          case RowOp::Softmax:
            if (n > 0) kernels.softmax(from, result + row * columns, n);
            break;
          case RowOp::Centre:
            statistic[row] = kernels.centre(from, result + row * columns, n);
            break;
          case RowOp::MeanSquare:
            statistic[row] = kernels.mean_square(from, n);
            break;
        }
      }
    });
  }

  const RowGroup group_;
};

}  // namespace

std::unique_ptr<Executable> make_row_group(const RowGroup& group) {
  return std::make_unique<RowGroupExecutable>(group);
}

}  // namespace attacca::run
