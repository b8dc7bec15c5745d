#include "gtest/gtest.h"

#include "epilogue/epilogue.hpp"

namespace attacca::epilogue {
namespace {

// relu(acc + row(bias)) over [M, 8].
Epilogue bias_relu() {
  Epilogue epilogue;
  const ir::Dim m = ir::Dim::symbol("M");
  epilogue.domain = {m, 8};
  Input acc, bias;
  acc.role = Role::Accumulator;
  bias.role = Role::Row;
  bias.access.strides = {0, 1};
  epilogue.inputs = {acc, bias};
  Node add, relu;
  add.op = ir::Op::Add;
  add.operands = {0, 1};
  relu.op = ir::Op::Relu;
  relu.operands = {2};
  epilogue.nodes = {add, relu};
  Output out;
  out.value = 3;
  out.access.strides = {8, 1};
  epilogue.outputs = {out};
  return epilogue;
}

std::string fault(const Epilogue& epilogue) {
  const Status status = verify(epilogue);
  return status ? "" : status.error().where + ": " + status.error().what;
}

TEST(Verify, AcceptsAnEpilogue) {
  EXPECT_EQ(fault(bias_relu()), "");
}

TEST(Verify, RowsOfGroupsAreRowsAndScalars) {
  const auto with = [](Role role, std::vector<ir::Dim> strides, int64_t batches) {
    Epilogue epilogue = bias_relu();
    epilogue.inputs[1].role = role;
    for (; batches > 0; --batches) {
      epilogue.domain.insert(epilogue.domain.begin(), 3);
      strides.insert(strides.begin(), 0);
      epilogue.outputs[0].access.strides.insert(epilogue.outputs[0].access.strides.begin(), 0);
    }
    epilogue.inputs[1].access.strides = std::move(strides);
    epilogue.inputs[1].group_stride = 8;
    EXPECT_TRUE(reads_by_group(epilogue));
    return fault(epilogue);
  };
  const std::string wrong = "input 1: a row for each group that is no row of a matrix";
  EXPECT_EQ(with(Role::Row, {0, 1}, 0), "");
  EXPECT_EQ(with(Role::Scalar, {0, 0}, 0), "");
  EXPECT_EQ(with(Role::Row, {0, 1}, 1), wrong);
  EXPECT_EQ(with(Role::Full, {8, 1}, 0), wrong);
  EXPECT_EQ(with(Role::Column, {1, 0}, 0), wrong);
  EXPECT_FALSE(reads_by_group(bias_relu()));
}

// The group is in the text, its stride is not; texts of other epilogues do not mention it.
TEST(Verify, RowsOfGroupsHaveATextOfTheirOwn) {
  Epilogue epilogue = bias_relu();
  const std::string plain = serialize(epilogue);
  EXPECT_EQ(plain.find("group"), std::string::npos);
  epilogue.inputs[1].group_stride = 8;
  const std::string grouped = serialize(epilogue);
  EXPECT_NE(grouped.find("i1 = row f32 [0 1] by group\n"), std::string::npos) << grouped;
  epilogue.inputs[1].group_stride = 800;
  EXPECT_EQ(serialize(epilogue), grouped);
}

TEST(Verify, NamesTheFault) {
  const auto broken = [](auto breaking) {
    Epilogue epilogue = bias_relu();
    breaking(epilogue);
    return fault(epilogue);
  };
  EXPECT_EQ(broken([](Epilogue& e) { e.nodes[0].operands[1] = 2; }),
            "node 0: operand 2 does not precede the node");
  EXPECT_EQ(broken([](Epilogue& e) { e.nodes[0].operands.pop_back(); }),
            "node 0: add with 1 operands");
  EXPECT_EQ(broken([](Epilogue& e) { e.nodes[1].op = ir::Op::Sum; }),
            "node 1: sum is no elementwise op");
  EXPECT_EQ(broken([](Epilogue& e) { e.inputs[1].role = Role::Full; }),
            "input 1: strides [0, 1] are not those of role full");
  EXPECT_EQ(broken([](Epilogue& e) { e.inputs[1].access.strides = {1}; }),
            "input 1: 1 strides over a domain of rank 2");
  EXPECT_EQ(broken([](Epilogue& e) { e.inputs[0].dtype = ir::DType::BF16; }),
            "input 0: an accumulator of bf16");
  EXPECT_EQ(broken([](Epilogue& e) { e.outputs[0].value = 4; }), "output 0: an output of no value");
  EXPECT_EQ(broken([](Epilogue& e) { e.outputs[0].kind = OutputKind::RowReduce; }),
            "output 0: a reduced axis with a stride");
  EXPECT_EQ(broken([](Epilogue& e) { e.outputs.clear(); }), "outputs: an epilogue without outputs");
}

}  // namespace
}  // namespace attacca::epilogue
