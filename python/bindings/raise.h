// What the compiled modules share: errors of a C library as Python's exceptions, and calls without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

namespace kedge::python {

// Raises the exception of kedge/errors.py that belongs to a kedge_status. `number` is its errno, where there is one.
[[noreturn]] inline void RaiseError(int status, const char* message, int number = 0) {
  namespace nb = nanobind;
  const nb::object error = nb::module_::import_("kedge.errors").attr("from_status")(status, message, number);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

template <typename Function>
int Unlocked(Function&& function) {
  const nanobind::gil_scoped_release release;
  return function();
}

}  // namespace kedge::python
