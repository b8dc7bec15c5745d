#include "problem/problem.hpp"

#include <utility>

#include "fmt/format.h"

namespace attacca::problem {
namespace {

using epilogue::Role;

int64_t bucket_of(int64_t m) {
  static constexpr int64_t kEdges[] = {1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024};
  for (const int64_t edge : kEdges)
    if (m <= edge) return edge;
  for (int64_t power = 2048;; power *= 2) {
    if (m <= power / 4 * 3) return power / 4 * 3;
    if (m <= power) return power;
  }
}

// The layout as candidates see it: which stride is 1, and alignment.
std::string layout(const View& view) {
  const char* major = view.column_stride == 1 ? "r" : view.row_stride == 1 ? "c" : "s";
  return fmt::format("{}:{}{}", name(view.dtype), major, view.alignment);
}

double footprint(const View& view, int64_t rows, int64_t columns, int64_t batch) {
  const auto extent = [](int64_t stride, int64_t count) {
    return stride == 0 ? 1.0 : double(count);
  };
  return extent(view.row_stride, rows) * extent(view.column_stride, columns) *
         extent(view.batch_stride, batch) * double(ir::size_of(view.dtype));
}

}  // namespace

std::vector<const View*> Problem::views() const {
  std::vector<const View*> all;
  for (const Product& product : products) {
    all.push_back(&product.a);
    all.push_back(&product.b);
  }
  for (const Product& product : products)
    if (product.scales) {
      all.push_back(&product.scales->a);
      all.push_back(&product.scales->b);
    }
  if (kernel)
    for (const KernelPart::Operand& operand : kernel->operands) all.push_back(&operand.view);
  for (const View& view : inputs) all.push_back(&view);
  for (const View& view : outputs) all.push_back(&view);
  return all;
}

std::vector<View*> Problem::views() {
  std::vector<View*> all;
  for (const View* view : std::as_const(*this).views()) all.push_back(const_cast<View*>(view));
  return all;
}

size_t Problem::scales_view(size_t product) const {
  size_t view = 2 * products.size();
  for (size_t i = 0; i < product; ++i) view += products[i].scales ? 2 : 0;
  return view;
}

std::vector<Factor> Problem::factors() const {
  std::vector<Factor> all;
  for (const epilogue::Input& input : epilogue.inputs) {
    if (input.role != Role::Accumulator) continue;
    Factor factor{static_cast<size_t>(input.gemm), products[static_cast<size_t>(input.gemm)].b};
    const int64_t step = input.column_offset.maybe_value().value_or(0) * factor.b.column_stride;
    factor.b.offset += step;
    while (factor.b.alignment > 1 && step * ir::size_of(factor.b.dtype) % factor.b.alignment != 0)
      factor.b.alignment /= 2;
    factor.b.column_stride *= input.column_step;
    all.push_back(factor);
  }
  return all;
}

std::string problem_class(const Problem& problem) {
  std::string text = fmt::format("{}|{}", name(problem.mode), serialize(problem.epilogue));
  for (const Product& product : problem.products) {
    text += fmt::format("|{} {} -> {}{}", layout(product.a), layout(product.b),
                        name(product.stored), product.fast ? " fast" : "");
    if (product.scales) text += " blocks";
    if (product.packed) text += fmt::format(" packed {}", to_string(product.packed->packing));
  }
  if (problem.kernel) {
    ir::KernelCall call = problem.kernel->call;
    call.grid.clear();  // of the shape
    text += fmt::format("|{}{}", call.file, launch_text(call));
  }
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role == Role::Full) text += "|" + layout(problem.inputs[i]);
  for (const View& output : problem.outputs) text += "|" + layout(output);
  return text;
}

std::string shape_bucket(const Problem& problem) {
  std::string text =
      fmt::format("m<={} n={} batch={}", bucket_of(problem.m), problem.n, problem.batch);
  for (const Product& product : problem.products) text += fmt::format(" k={}", product.k);
  return text;
}

double operations(const Problem& problem) {
  double total = 0;
  for (const Product& product : problem.products)
    total +=
        2.0 * double(problem.m) * double(product.n) * double(product.k) * double(problem.batch);
  return total;
}

double bytes(const Problem& problem) {
  double total = 0;
  for (const Product& product : problem.products)
    total += footprint(product.a, problem.m, product.k, problem.batch) +
             (product.packed ? double(product.packed->bytes)
                             : footprint(product.b, product.k, product.n, problem.batch));
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role != Role::Accumulator)
      total += footprint(problem.inputs[i], problem.m, problem.n, problem.batch);
  for (const View& output : problem.outputs)
    total += footprint(output, problem.m, problem.n, problem.batch);
  return total;
}

}  // namespace attacca::problem
