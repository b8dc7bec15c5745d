// attacca._core: the public C++ interface in Python, which the package attacca wraps.
#include "nanobind/stl/string.h"
#include "nanobind/stl/string_view.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {

namespace {

[[noreturn]] void raise(std::string_view what, std::string_view where, std::string_view fix) {
  const nb::object type = nb::module_::import_("attacca._errors").attr("Error");
  const nb::object error = type(what, where, fix);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

}  // namespace

void raise(const Status& status) {
  raise(status.what(), status.where(), status.fix());
}

void report_warnings() {
  static size_t reported = 0;  // Python's global lock protects it
  for (const Status& warning : warnings(reported)) {
    ++reported;
    if (PyErr_WarnEx(PyExc_RuntimeWarning, warning.text().c_str(), 1) != 0)
      throw nb::python_error();
  }
}

const std::string& whole(const std::string& text, const char* where) {
  if (text.find('\0') != std::string::npos)
    raise(std::string("the ") + where + " has a NUL character", where, "take it out");
  return text;
}

size_t index_of(const std::string& text, std::span<const std::string_view> names,
                const char* what) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return i;
  std::string all;
  for (const std::string_view name : names) all.append(all.empty() ? "" : ", ").append(name);
  raise("unknown " + std::string(what) + " " + text, what, "one of " + all);
}

}  // namespace attacca::python

NB_MODULE(_core, module) {
  using namespace attacca::python;
  // A plan that a program keeps until its end is not a leak.
  nb::set_leak_warnings(false);
  module.doc() = "libattacca's public interface; use the attacca package.";
  module.def("version", [] { return std::string(attacca::version()); });
  module.def("template_directory", [] { return check(attacca::template_directory()); });
  module.def("cache_directory", [] { return check(attacca::cache_directory()); });
  module.def("decision_stamp", [] { return check(attacca::decision_stamp()); });
  module.def(
      "check_device",
      [](const std::string& device) { check(attacca::check_device(whole(device, "device"))); },
      nb::arg("device"));
  module.def(
      "export_choices",
      [](const std::string& path, const std::string& device) {
        return check(attacca::export_choices(whole(path, "path"), whole(device, "device")));
      },
      nb::arg("path"), nb::arg("device"));
  module.def(
      "import_choices",
      [](const std::string& path, const std::string& device) {
        return check(attacca::import_choices(whole(path, "path"), whole(device, "device")));
      },
      nb::arg("path"), nb::arg("device"));
  module.def(
      "report_page",
      [](const std::string& json) { return check(attacca::report_page(whole(json, "json"))); },
      nb::arg("json"));
  bind_graph(module);
  bind_instance(module);
  bind_plan(module);
  bind_dlpack(module);
  bind_frameworks(module);
  bind_call_cache(module);
  bind_tuning(module);
  bind_weights(module);
}
