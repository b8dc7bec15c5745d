// A stand-in for cuBLASLt: handles, and no product. As of the library (13.0), the end of a handle
// synchronises the context.
#include <cstddef>
#include <cstdlib>

#include "gpu/fake_cuda.hpp"

namespace {
int handles = 0;
}

extern "C" {

int fake_cublaslt_handles() {
  return handles;
}

int cublasLtCreate(void** handle) {
  ++handles;
  *handle = &handles;
  return 0;
}

int cublasLtDestroy(void*) {
  --handles;
  return attacca::fake<int()>("cuCtxSynchronize")();
}

size_t cublasLtGetVersion() {
  return 130000;
}

const char* cublasLtGetStatusString(int) {
  return "of the stand-in";
}

#define NOT_HERE(name)                     \
  int name() {                             \
    std::abort(); /* no test multiplies */ \
  }
NOT_HERE(cublasLtMatmulDescCreate)
NOT_HERE(cublasLtMatmulDescDestroy)
NOT_HERE(cublasLtMatmulDescSetAttribute)
NOT_HERE(cublasLtMatrixLayoutCreate)
NOT_HERE(cublasLtMatrixLayoutDestroy)
NOT_HERE(cublasLtMatrixLayoutSetAttribute)
NOT_HERE(cublasLtMatmulPreferenceCreate)
NOT_HERE(cublasLtMatmulPreferenceDestroy)
NOT_HERE(cublasLtMatmulPreferenceSetAttribute)
NOT_HERE(cublasLtMatmulAlgoGetHeuristic)
NOT_HERE(cublasLtMatmulAlgoConfigGetAttribute)
NOT_HERE(cublasLtMatmul)
#undef NOT_HERE
}
