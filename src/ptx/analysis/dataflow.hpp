// Follows addresses through a kernel and the functions that it calls, to a fixed point: which
// origins each register may have. Registers have one set for the whole function, whatever the order
// of its instructions; a function has one for each way in which it is called.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ptx/analysis/function_code.hpp"
#include "ptx/analysis/provenance.hpp"

namespace attacca::ptx {

// 8 bytes of a .param variable that calls pass values in.
using Cells = std::map<std::pair<const Variable*, uint64_t>, Provenance>;

// A function in one chain of calls.
struct FlowBody {
  const FunctionCode* code = nullptr;
  Cells arguments;
  std::vector<Provenance> registers;
  Cells cells;                            // arguments, results and what its calls pass
  std::map<const Step*, size_t> callees;  // of calls of functions that the module defines
};

// ( results ), callee, ( arguments ).
struct CallShape {
  Ref callee;
  std::vector<Ref> results, arguments;
};
CallShape call_shape(const Step& step);

class Dataflow {
 public:
  // The output's pointer stands at `offset` of the entry's parameter.
  Dataflow(ModuleCode& code, const Function& entry, size_t parameter, uint64_t offset);

  // The entry first.
  const std::vector<std::unique_ptr<FlowBody>>& bodies() const { return bodies_; }
  // The function that a call leads to. nullopt: a recursion, or too many functions.
  static std::optional<size_t> callee_of(const FlowBody& body, const Step& step);

  Provenance value(const FlowBody& body, const Argument& argument) const;
  Provenance value(const FlowBody& body, const Ref& ref) const;

  // The .param variable of a load or store. nullopt: its address is no such name.
  static std::optional<std::pair<const Variable*, uint64_t>> cell_of(const Argument& address);
  // The index of a parameter of the entry.
  std::optional<uint32_t> entry_parameter(const Variable* variable) const;
  // 8 bytes of the entry's parameter.
  Provenance parameter_value(uint32_t parameter, int64_t offset) const;

 private:
  std::optional<size_t> body_for(const FunctionCode& code, Cells arguments);
  void solve(FlowBody& body);
  void transfer(FlowBody& body, const Step& step);
  void load(FlowBody& body, const Step& step);
  void store_parameter(FlowBody& body, const Step& step);
  void call(FlowBody& body, const Step& step);
  Provenance loaded(const FlowBody& body, const Argument& address, uint64_t byte) const;
  Provenance computed(const FlowBody& body, const Step& step) const;
  void assign(FlowBody& body, const Argument& destination, const Provenance& value);
  void assign(FlowBody& body, const Ref& destination, const Provenance& value);

  ModuleCode& code_;
  const Function& entry_;
  uint32_t parameter_;
  int64_t offset_;
  std::vector<std::unique_ptr<FlowBody>> bodies_;
  std::vector<const FunctionCode*> active_;
  bool changed_ = false;
  bool settled_ = false;  // from now on values only grow, and no empty one is still unknown
};

}  // namespace attacca::ptx
