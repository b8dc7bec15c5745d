#include "python/frameworks.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "nanobind/stl/tuple.h"
#include "nanobind/stl/vector.h"

namespace nb = nanobind;

namespace attacca::python {
namespace {

// ---- DLPack's exchange interface, as far as it is used: torch.Tensor.__dlpack_c_exchange_api__

struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DlExchange {
  uint32_t major, minor;
  DlExchange* previous;
  void* allocate;
  void* managed_from_object;
  void* object_from_managed;
  int (*tensor_from_object)(void* object, DlTensor* tensor);
  void* current_stream;
};

constexpr uint32_t kExchangeMajor = 1;

// A function that returns `calm` unless torch records or transforms what is called.
struct Watch {
  nb::object function;
  nb::object argument;  // None: takes none
  nb::object calm;
};

// Kept until the process ends.
struct Known {
  PyTypeObject* array = nullptr;
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  int (*tensor_from_object)(void* object, DlTensor* tensor) = nullptr;
  std::vector<Watch> watches;
  PyObject* is_grad_enabled = nullptr;
  PyObject* increment_version = nullptr;
  PyObject* requires_grad = nullptr;  // the attribute's name, and the method's
  PyObject* is_neg = nullptr;
};
Known& known() {
  static Known& all = *new Known;
  return all;
}

// False also where the call fails, after which nothing is raised.
bool is_object(PyObject* owned, PyObject* wanted) {
  if (owned == nullptr) PyErr_Clear();
  Py_XDECREF(owned);
  return owned == wanted;
}

bool is_calm(const Watch& watch) {
  PyObject* argument = watch.argument.ptr();
  PyObject* const arguments[] = {argument};
  const size_t count = watch.argument.is_none() ? 0 : 1;
  return is_object(PyObject_Vectorcall(watch.function.ptr(), arguments, count, nullptr),
                   watch.calm.ptr());
}

}  // namespace

bool CallKey::add(PyObject* tensor, bool writable) {
  const PyTypeObject* type = Py_TYPE(tensor);
  const Known& types = known();
  if (type == types.array) return add_array(tensor, writable);
  if (type == types.tensor || type == types.parameter) return add_tensor(tensor);
  return false;
}

bool CallKey::add_number(uint32_t number) {
  if (count_ == kMostWords) return false;
  words_[count_++] = number;
  return true;
}

bool CallKey::add_array(PyObject* array, bool writable) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(array, &buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // a dtype that is not NumPy's own
    return false;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  // One letter: a number in this machine's order of bytes.
  const char* format = buffer.format;
  const bool plain = format != nullptr && format[0] != '\0' && format[1] == '\0';
  const bool added = plain && !(writable && buffer.readonly) &&
                     add_layout(buffer.buf, int64_t{format[0]} << 32,
                                static_cast<size_t>(buffer.ndim), buffer.shape, buffer.strides);
  PyBuffer_Release(&buffer);
  return added;
}

bool CallKey::add_tensor(PyObject* tensor) {
  const Known& torch = known();
  DlTensor seen;
  if (torch.tensor_from_object(tensor, &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  PyObject* grad = PyObject_GetAttr(tensor, torch.requires_grad);
  const bool differentiable = grad != Py_False;
  if (grad == nullptr) PyErr_Clear();
  Py_XDECREF(grad);
  requires_grad_ |= differentiable;
  if (!is_object(PyObject_VectorcallMethod(torch.is_neg, &tensor,
                                           1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr),
                 Py_False))
    return false;
  has_torch_ = true;
  const int64_t dtype = int64_t{seen.code} << 24 | int64_t{seen.bits} << 16 | seen.lanes;
  if (count_ == kMostWords) return false;
  words_[count_++] = int64_t{seen.device_type} << 32 | seen.device_id;
  return add_layout(static_cast<char*>(seen.data) + seen.byte_offset, -1 - dtype,
                    static_cast<size_t>(seen.rank), seen.shape, seen.strides);
}

bool CallKey::add_layout(void* address, int64_t kind, size_t rank, const int64_t* shape,
                         const int64_t* strides) {
  if (tensors_ == kMostTensors || count_ + 2 + 2 * rank > kMostWords) return false;
  if (rank > 0 && (shape == nullptr || strides == nullptr)) return false;
  // A tensor without memory that has elements.
  if (address == nullptr && std::find(shape, shape + rank, 0) == shape + rank) return false;
  const uintptr_t low = reinterpret_cast<uintptr_t>(address) & 15;
  addresses_[tensors_++] = address;
  words_[count_++] = kind;
  words_[count_++] = static_cast<int64_t>(rank << 8 | (low == 0 ? 16 : low & -low));
  std::copy(shape, shape + rank, &words_[count_]);
  std::copy(strides, strides + rank, &words_[count_ + rank]);
  count_ += 2 * rank;
  return true;
}

bool CallKey::finish(bool watched) {
  if (!has_torch_) return true;
  const Known& torch = known();
  if (watched && !std::all_of(torch.watches.begin(), torch.watches.end(), is_calm)) return false;
  return !requires_grad_ || is_object(PyObject_CallNoArgs(torch.is_grad_enabled), Py_False);
}

void wrote(PyObject* tensor) {
  const Known& torch = known();
  if (Py_TYPE(tensor) != torch.tensor && Py_TYPE(tensor) != torch.parameter) return;
  PyObject* done = PyObject_Vectorcall(torch.increment_version, &tensor, 1, nullptr);
  if (done == nullptr) throw nb::python_error();
  Py_DECREF(done);
}

void bind_frameworks(nb::module_& module) {
  module.def(
      "know_numpy",
      [](nb::type_object array) {
        known().array = reinterpret_cast<PyTypeObject*>(array.release().ptr());
      },
      nb::arg("array"), "Sets the class of NumPy's arrays.");
  module.def(
      "know_torch",
      [](nb::type_object tensor, nb::type_object parameter, nb::object exchange,
         nb::object is_grad_enabled, nb::object increment_version,
         const std::vector<std::tuple<nb::object, nb::object, nb::object>>& watches) {
        auto* api = static_cast<const DlExchange*>(
            PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
        if (api == nullptr) throw nb::python_error();
        while (api != nullptr && api->major != kExchangeMajor) api = api->previous;
        if (api == nullptr || api->tensor_from_object == nullptr) return false;
        Known& torch = known();
        torch.tensor_from_object = api->tensor_from_object;
        torch.requires_grad = PyUnicode_InternFromString("requires_grad");
        torch.is_neg = PyUnicode_InternFromString("is_neg");
        torch.is_grad_enabled = is_grad_enabled.inc_ref().ptr();
        torch.increment_version = increment_version.inc_ref().ptr();
        torch.watches.clear();
        for (const auto& [function, argument, calm] : watches)
          torch.watches.push_back({function, argument, calm});
        torch.tensor = reinterpret_cast<PyTypeObject*>(tensor.release().ptr());
        torch.parameter = reinterpret_cast<PyTypeObject*>(parameter.release().ptr());
        return true;
      },
      nb::arg("tensor"), nb::arg("parameter"), nb::arg("exchange"), nb::arg("is_grad_enabled"),
      nb::arg("increment_version"), nb::arg("watches"),
      "Sets torch's classes and functions. `watches`: functions, their argument or None, and what "
      "they return\nunless torch records or transforms what is called.");
}

}  // namespace attacca::python
