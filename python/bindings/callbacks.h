// Python callables behind the C API's call-backs: communicators for the collective bootstrap, and objects with a
// serializer. The C API calls them with the GIL released; each takes it for as long as it runs Python.
//
// An exception raised by a callable cannot cross the C API: it is kept (see TakePendingException) and raised from the
// Python call that led to it, in place of Kedge's own error.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>

#include "kedge/kedge.h"

namespace kedge::python {

// A bootstrap over any object with Get_rank(), Get_size(), allgather(bytes) -> list, bcast(bytes, root) and barrier():
// mpi4py's communicators have them. Owns a reference to `communicator`, given back by its release call-back.
// Returns false with a Python error set when the object lacks a method. Needs the GIL.
bool MakeBootstrap(PyObject* communicator, kedge_bootstrap* bootstrap);

// serialize() -> bytes-like, deserialize(bytes). serialize runs once a checkpoint, when the size is asked for; its
// result is held until it has been written. Owned by the context that protects it.
class PythonObject {
 public:
  PythonObject(PyObject* serialize, PyObject* deserialize);
  ~PythonObject();
  PythonObject(const PythonObject&) = delete;
  PythonObject& operator=(const PythonObject&) = delete;
  kedge_object Callbacks();

 private:
  static int Size(void* user, size_t* bytes);
  static int Serialize(void* user, kedge_writer* writer);
  static int Deserialize(void* user, kedge_reader* reader, size_t bytes);
  PyObject* serialize_;
  PyObject* deserialize_;
  Py_buffer serialized_{};
};

// The exception that a call-back of this thread left behind, set as the current Python error; false when there is none.
bool TakePendingException();

}  // namespace kedge::python
