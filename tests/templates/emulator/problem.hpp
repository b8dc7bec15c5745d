// A random problem for an emulated kernel, with operands of many layouts, and the expected result.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ir/graph/tensor.hpp"
#include "ir/interpret/codes.hpp"
#include "templates/emulator/kernels.hpp"

namespace attacca::emulator {

// The layout of an operand [batch, rows, columns] in memory.
enum class Layout { Rows, OddRows, Columns, Strided, BroadcastRows };

// An operand and its memory, without spare bytes.
struct Operand {
  std::vector<uint8_t> bytes;
  attacca_operand view{};
};
struct Vector {
  std::vector<uint8_t> bytes;
  attacca_vector view{};
};

class Problem {
 public:
  // Of the extents given; layouts and values are random, what the kernel's metadata allows.
  Problem(const Kernel& kernel, int m, int n, int k, int batch, uint32_t seed);
  Problem(const Problem&) = delete;

  const attacca_gemm_arguments& arguments() const { return arguments_; }
  const std::string& description() const { return description_; }
  // Every byte of every output as it must be after the run, gaps between elements included.
  bool outputs_as_expected(std::string& difference) const;

 private:
  Operand make_operand(int rows, int columns, Layout layout, int bits, bool random_values);
  Operand make_matrices(int rows, int columns, Layout layout, int bits, bool random_values,
                        int count);
  uint32_t random_bits(int bits);
  Vector make_vector(int length);
  Layout random_layout(std::initializer_list<Layout> from);
  void make_groups();
  void make_named_rows(int rows);
  void make_factors();
  void make_alternate_columns();
  void make_alternate_fulls();
  void make_alternate_rows();
  void make_packed();
  void choose_codes();
  void make_codes();
  void make_scales();
  float scale(const Operand& of_b, int batch, int m, int n, int k) const;
  int matrices() const { return info_.grouped ? arguments_.groups : arguments_.batch; }
  int matrix_of(int batch, int m) const;
  int batch_of(int batch, int m) const;
  int row_of_a(int m) const;
  float coded_weight(int s, int matrix, int k, int n) const;
  float product(int s, int batch, int m, int n) const;
  float value(int batch, int m, int n) const;
  std::vector<float> values() const;
  bool maximum_as_expected(const std::vector<float>& values, std::string& difference) const;
  std::string difference_of(const Operand& output, int bits, const std::vector<float>& values,
                            float added) const;

  const attacca_info info_;
  std::mt19937 random_;
  std::string description_;
  bool making_a_ = false;
  bool whole_ = false;  // all operands allow whole chunks
  attacca_gemm_arguments arguments_{};
  Operand a_, b_, b1_, scale_a_, scale_b_, scale_b1_, full_[4], output_[2];
  Operand stored_;                   // by the hole, through the context
  std::vector<int32_t> ends_;        // of a grouped product's groups, with others between them
  std::vector<int64_t> group_ends_;  // what these mean
  std::vector<int64_t> named_;       // the index of A's rows, with others between them
  std::vector<int32_t> narrow_;      // the same as s32
  float maximum_ = 0;
  Vector row_[2], column_[2];
  ir::Tensor packed_, weights_;                  // a packed B, and what it stands for
  ir::CodeFormat format_;                        // of weights in codes; block: the arguments'
  std::vector<uint8_t> codes_, scales_, zeros_;  // of these
};

}  // namespace attacca::emulator
