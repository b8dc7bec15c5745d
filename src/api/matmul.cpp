#include "api/matmul.hpp"

#include "api/names.hpp"
#include "ir/graph/product_dtype.hpp"
#include "ir/text/dtype_named.hpp"
#include "run/gemm_graph.hpp"

namespace attacca::api {

Result<ir::Graph> matmul_graph(const std::string& dtype, const std::string& b_layout,
                               const std::string& epilogue, const std::string& out_dtype) {
  run::GemmForm form;
  ATTACCA_TRY(form.input, ir::dtype_named(dtype, "dtype"));
  ir::DType result = ir::default_result(form.input);
  if (!out_dtype.empty()) {
    ATTACCA_TRY(result, ir::dtype_named(out_dtype, "out_dtype"));
  }
  ATTACCA_TRY_VOID(run::set_layout(form, b_layout));
  form.epilogue = epilogue;
  ATTACCA_TRY_VOID(run::set_product(form));
  form.text.results = {result};
  return run::gemm_graph(form);
}

}  // namespace attacca::api
