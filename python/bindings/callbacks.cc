#include "callbacks.h"

#include <cstring>

namespace kedge::python {
namespace {

thread_local PyObject* pending_exception = nullptr;

class GilHeld {
 public:
  GilHeld() : state_(PyGILState_Ensure()) {}
  ~GilHeld() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// Keeps the current Python error for the call that led here; returns the code that tells the C API of a failure.
int KeepException() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != nullptr && traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  Py_XDECREF(pending_exception);
  pending_exception = value;
  return 1;
}

int Allgather(void* user, const void* send, void* receive, size_t bytes) {
  const GilHeld gil;
  PyObject* gathered = PyObject_CallMethod(static_cast<PyObject*>(user), "allgather", "y#", static_cast<const char*>(send),
                                           static_cast<Py_ssize_t>(bytes));
  if (gathered == nullptr) return KeepException();
  PyObject* parts = PySequence_Fast(gathered, "allgather must return a sequence of bytes");
  Py_DECREF(gathered);
  if (parts == nullptr) return KeepException();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(parts); ++i) {
    char* data = nullptr;
    Py_ssize_t size = 0;
    const int failed = PyBytes_AsStringAndSize(PySequence_Fast_GET_ITEM(parts, i), &data, &size);
    if (failed != 0 || static_cast<size_t>(size) != bytes) {
      if (!failed) PyErr_Format(PyExc_ValueError, "allgather gave %zd bytes for rank %zd instead of %zu", size, i, bytes);
      Py_DECREF(parts);
      return KeepException();
    }
    std::memcpy(static_cast<char*>(receive) + static_cast<size_t>(i) * bytes, data, bytes);
  }
  Py_DECREF(parts);
  return 0;
}

int Broadcast(void* user, void* data, size_t bytes, int root) {
  const GilHeld gil;
  PyObject* result = PyObject_CallMethod(static_cast<PyObject*>(user), "bcast", "y#i", static_cast<const char*>(data),
                                         static_cast<Py_ssize_t>(bytes), root);
  if (result == nullptr) return KeepException();
  char* received = nullptr;
  Py_ssize_t size = 0;
  const int failed = PyBytes_AsStringAndSize(result, &received, &size);
  if (!failed && static_cast<size_t>(size) == bytes) {
    std::memcpy(data, received, bytes);
    Py_DECREF(result);
    return 0;
  }
  if (!failed) PyErr_Format(PyExc_ValueError, "bcast gave %zd bytes instead of %zu", size, bytes);
  Py_DECREF(result);
  return KeepException();
}

int Barrier(void* user) {
  const GilHeld gil;
  PyObject* result = PyObject_CallMethod(static_cast<PyObject*>(user), "barrier", nullptr);
  if (result == nullptr) return KeepException();
  Py_DECREF(result);
  return 0;
}

void ReleaseCommunicator(void* user) {
  const GilHeld gil;
  Py_DECREF(static_cast<PyObject*>(user));
}

// Calls a method without arguments that gives an int; false with a Python error set otherwise.
bool CallForInt(PyObject* object, const char* method, int* out) {
  PyObject* result = PyObject_CallMethod(object, method, nullptr);
  if (result == nullptr) return false;
  const long value = PyLong_AsLong(result);
  Py_DECREF(result);
  if (value == -1 && PyErr_Occurred() != nullptr) return false;
  *out = static_cast<int>(value);
  return true;
}

}  // namespace

bool MakeBootstrap(PyObject* communicator, kedge_bootstrap* bootstrap) {
  *bootstrap = kedge_bootstrap{};
  bootstrap->struct_size = sizeof(*bootstrap);
  if (!CallForInt(communicator, "Get_rank", &bootstrap->rank) || !CallForInt(communicator, "Get_size", &bootstrap->ranks))
    return false;
  for (const char* method : {"allgather", "bcast", "barrier"}) {
    if (PyObject_HasAttrString(communicator, method)) continue;
    PyErr_Format(PyExc_TypeError,
                 "the communicator %R has no method %s; Kedge needs Get_rank, Get_size, allgather, bcast, barrier", communicator,
                 method);
    return false;
  }
  Py_INCREF(communicator);
  bootstrap->user = communicator;
  bootstrap->allgather = Allgather;
  bootstrap->broadcast = Broadcast;
  bootstrap->barrier = Barrier;
  bootstrap->release = ReleaseCommunicator;
  return true;
}

PythonObject::PythonObject(PyObject* serialize, PyObject* deserialize) : serialize_(serialize), deserialize_(deserialize) {
  Py_INCREF(serialize_);
  Py_INCREF(deserialize_);
}

PythonObject::~PythonObject() {
  if (serialized_.obj != nullptr) PyBuffer_Release(&serialized_);
  Py_DECREF(serialize_);
  Py_DECREF(deserialize_);
}

kedge_object PythonObject::Callbacks() {
  return {sizeof(kedge_object), this, Size, Serialize, Deserialize};
}

int PythonObject::Size(void* user, size_t* bytes) {
  auto* self = static_cast<PythonObject*>(user);
  const GilHeld gil;
  if (self->serialized_.obj != nullptr) PyBuffer_Release(&self->serialized_);
  PyObject* result = PyObject_CallNoArgs(self->serialize_);
  if (result == nullptr) return KeepException();
  const int failed = PyObject_GetBuffer(result, &self->serialized_, PyBUF_SIMPLE);
  Py_DECREF(result);
  if (failed != 0) {
    self->serialized_.obj = nullptr;
    return KeepException();
  }
  *bytes = static_cast<size_t>(self->serialized_.len);
  return 0;
}

int PythonObject::Serialize(void* user, kedge_writer* writer) {
  auto* self = static_cast<PythonObject*>(user);
  const int status = kedge_write(writer, self->serialized_.buf, static_cast<size_t>(self->serialized_.len));
  const GilHeld gil;
  PyBuffer_Release(&self->serialized_);
  return status;
}

int PythonObject::Deserialize(void* user, kedge_reader* reader, size_t bytes) {
  auto* self = static_cast<PythonObject*>(user);
  const GilHeld gil;
  PyObject* data = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (data == nullptr) return KeepException();
  const int status = kedge_read(reader, PyBytes_AS_STRING(data), bytes);
  PyObject* result = status == KEDGE_OK ? PyObject_CallOneArg(self->deserialize_, data) : nullptr;
  Py_DECREF(data);
  if (status != KEDGE_OK) return status;
  if (result == nullptr) return KeepException();
  Py_DECREF(result);
  return 0;
}

bool TakePendingException() {
  if (pending_exception == nullptr) return false;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(pending_exception)), pending_exception);
  Py_CLEAR(pending_exception);
  return true;
}

}  // namespace kedge::python
