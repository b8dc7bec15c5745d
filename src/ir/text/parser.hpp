// The recursive-descent parser of the text form; the grammar stands in docs/text-format.md.
// It builds the graph as it reads.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/text/call.hpp"
#include "ir/text/compose.hpp"
#include "ir/text/lexer.hpp"
#include "ir/text/text.hpp"

namespace attacca::ir {

class Parser {
 public:
  Parser(const SourceText& source, const std::vector<Token>& tokens)
      : source_(source), tokens_(tokens) {}

  Result<Graph> graph();
  // Free names become inputs of the type, after those of `names`, which come first.
  Result<Graph> bare_expression(const Type& type, const std::vector<std::string>& names);
  // A dimension of these names alone.
  Result<Dim> lone_dim(const std::map<std::string, Dim>& names);
  // What stands after `return`, over these inputs.
  Result<Graph> results(const std::vector<NamedType>& inputs, ForeignCalls& calls);

 private:
  struct Definition {
    Value value;
    size_t offset;
  };
  struct Element {
    Token number;
    bool negative;
  };

  // parse.cpp: the graph and its statements.
  Status header();
  Status check_strides() const;
  Status input();
  Result<Type> type();
  Status statement();
  Status define(const Token& name, Value value);
  Status returns();
  Status returned();
  Status end_of_statement();
  Status end_of_text();

  // parse_dims.cpp: dtypes, dimensions, lists, constants.
  Result<DType> dtype();
  Result<Dim> dim();
  Result<Dim> known_dim();
  Status check_symbols(size_t offset, std::span<const Dim> dims) const;
  Status check_symbols(size_t offset, const std::vector<std::string>& symbols) const;
  Result<Dim> dim_product();
  Result<Dim> dim_factor();
  Result<Dim> dim_function();
  Result<std::vector<Dim>> dims(std::string_view close);
  bool constant(Operand& into);
  Status constant_number(const Token& open, const Operand& number, Operand& into);
  Result<Value> constant_tensor(DType dtype);
  Result<std::vector<Element>> constant_elements();
  Status store(Tensor& tensor, int64_t at, const Element& element);

  // parse_kernel.cpp: the call of a user's kernel.
  struct KernelParts {
    KernelAttrs attrs;
    std::vector<Value> operands;
    std::set<std::string_view> keywords;  // given so far
  };
  bool kernel(Operand& into);
  bool kernel_arguments(KernelParts& parts);
  Status kernel_file(KernelParts& parts);
  Status kernel_plain_argument(KernelParts& parts, bool& is_expression);
  Status kernel_tensor(KernelParts& parts, const Operand& operand);
  Status kernel_result(KernelParts& parts);
  Status finish(const Token& name, KernelParts& parts, Operand& into);
  Result<ScalarArgument> kernel_scalar();
  Result<LaunchSize> launch_size();
  Status kernel_keyword(KernelParts& parts);
  Status kernel_list_element(const Token& keyword, KernelCall& call);
  Result<int64_t> kernel_integer();

  // parse_expression.cpp: expressions. Recursive functions return whether they succeeded and leave
  // the error in failure_: with a Result in every frame, legal nesting could overflow a small
  // stack.
  Result<Operand> expression();
  bool expression(Operand& into, Precedence least = Precedence::Lowest);
  bool unary(Operand& into);
  bool postfix(Operand& into);
  bool primary(Operand& into);
  bool parenthesised(Operand& into);
  bool value_call(Operand& into);
  bool foreign_call(const ForeignFunction& function, Operand& into);
  bool arguments(Call& call);
  bool argument(Call& call);
  Result<std::vector<Value>> call();
  Status combine(const Token& token, const Infix& infix, Operand& left, const Operand& right);
  Status negate(const Token& token, Operand& operand);
  Status leaf(Operand& into);
  Status number(Operand& into);
  Status named(Operand& into);
  Status slice(Operand& operand);
  Result<PythonSlice> slice_range();
  const ForeignFunction* foreign(std::string_view name) const;
  Status add_operand(const Token& name, const Token& at, const Operand& operand, ForeignCall& call,
                     Shape& shape);
  Status finish(const Token& name, const ForeignFunction& function, ForeignCall& call, Shape& shape,
                Operand& into);
  Result<std::vector<Value>> lower(const Call& call);
  Status one_result(const Call& call, Operand& into);
  Status list(Argument& into);
  Status check_order(const Call& call) const;
  Status unknown_op(const Token& name) const;
  Status too_deep(std::string fix) const;
  tl::unexpected<Error> undefined(const Token& name) const;

  // Calls a function that returns a Status in a frame of its own, so that the caller's frame holds
  // no Status.
  template <class Step>
  [[gnu::noinline]] bool apart(Step step) {
    Status status = step();
    if (!status) failure_ = std::move(status).error();
    return status.has_value();
  }

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool accept(std::string_view symbol);
  Status expect(std::string_view symbol);
  // Expects the closing bracket for the bracket at `open`.
  Status close(std::string_view symbol, const Token& open);
  Result<Token> name(std::string_view what);
  tl::unexpected<Error> unexpected(std::string_view wanted, std::string fix = {}) const;

  const SourceText& source_;
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
  int nesting_ = 0, size_nesting_ = 0;
  Graph graph_;
  std::unordered_map<std::string, Definition> names_;
  std::set<std::string> known_symbols_;  // of the header
  Error failure_;                        // of the expression that failed
  ForeignCalls* foreign_ = nullptr;
  const std::map<std::string, Dim>* dim_names_ = nullptr;  // of lone_dim()
  const Type* free_type_ = nullptr;  // of free names; nullptr: a free name is an error
};

// A number token's value. Errors: integers beyond 2^63, reals beyond f64.
Result<Number> parse_number(const SourceText& source, const Token& token);

}  // namespace attacca::ir
