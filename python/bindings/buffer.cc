#include "buffer.h"

#include <algorithm>
#include <string_view>

namespace kedge::python {

kedge_type TypeOfFormat(const std::string& format, size_t element_bytes) {
  std::string code = format;
  if (!code.empty() && (code[0] == '@' || code[0] == '=' || code[0] == '<')) code.erase(0, 1);
  if (code == "?") return KEDGE_TYPE_BOOL;
  if (code == "e") return KEDGE_TYPE_FLOAT16;
  if (code == "f") return KEDGE_TYPE_FLOAT32;
  if (code == "d") return KEDGE_TYPE_FLOAT64;
  if (code == "Zf") return KEDGE_TYPE_COMPLEX64;
  if (code == "Zd") return KEDGE_TYPE_COMPLEX128;
  const bool is_signed = code.size() == 1 && std::string("bhilqn").find(code[0]) != std::string::npos;
  const bool is_unsigned = code.size() == 1 && std::string("BHILQN").find(code[0]) != std::string::npos;
  if (!is_signed && !is_unsigned) return KEDGE_TYPE_BYTES;
  switch (element_bytes) {
    case 1: return is_signed ? KEDGE_TYPE_INT8 : KEDGE_TYPE_UINT8;
    case 2: return is_signed ? KEDGE_TYPE_INT16 : KEDGE_TYPE_UINT16;
    case 4: return is_signed ? KEDGE_TYPE_INT32 : KEDGE_TYPE_UINT32;
    case 8: return is_signed ? KEDGE_TYPE_INT64 : KEDGE_TYPE_UINT64;
    default: return KEDGE_TYPE_BYTES;
  }
}

const char* WhyNotPlain(const std::string& format) {
  bool in_name = false;
  for (size_t i = 0; i < format.size(); ++i) {
    const char code = format[i];
    if (code == ':') in_name = !in_name;
    if (in_name) continue;
    if (code == 'O') return "its elements are Python objects, whose addresses mean nothing to another process";
    // ctypes calls its strings z and Z; before the letter of a number a Z makes that complex.
    const bool is_complex = i + 1 < format.size() && std::string_view("fdg").find(format[i + 1]) != std::string_view::npos;
    if (std::string_view("P&Xz").find(code) != std::string_view::npos || (code == 'Z' && !is_complex))
      return "its elements are pointers, which mean nothing to another process";
    if (code == '>' || code == '!')
      return "its byte order is not this machine's: convert it with astype(dtype.newbyteorder('='))";
  }
  return nullptr;
}

std::unique_ptr<Buffer> Buffer::Take(PyObject* object, bool writable) {
  std::unique_ptr<Buffer> buffer(new Buffer);
  const int flags = PyBUF_ANY_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &buffer->view_, flags) == 0) {
    const char* fault = WhyNotPlain(buffer->view_.format != nullptr ? buffer->view_.format : "");
    if (fault == nullptr) return buffer;
    PyErr_Format(PyExc_BufferError, "an object of type %s cannot be saved: %s", Py_TYPE(object)->tp_name, fault);
    return nullptr;
  }
  PyErr_Clear();
  buffer->view_.obj = nullptr;
  PyErr_Format(
      PyExc_BufferError,
      "%R of type %s gives no contiguous%s buffer: pass a NumPy array (np.ascontiguousarray makes a copy, which would not be "
      "your array), bytearray or writable memoryview",
      object, Py_TYPE(object)->tp_name, writable ? ", writable" : "");
  return nullptr;
}

Buffer::~Buffer() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

kedge_region_info Buffer::Info(const char* name) const {
  kedge_region_info info{};
  info.struct_size = sizeof(info);
  info.name = name;
  info.type = TypeOfFormat(view_.format != nullptr ? view_.format : "B", element_bytes());
  info.memory = KEDGE_MEMORY_HOST;
  // More dimensions than the format holds: the bytes are kept all the same, the shape is not.
  if (view_.ndim <= KEDGE_MAX_DIMENSIONS && view_.shape != nullptr) {
    info.dimensions = view_.ndim;
    std::copy(view_.shape, view_.shape + view_.ndim, info.shape);
    info.column_major = view_.ndim > 1 && PyBuffer_IsContiguous(&view_, 'F') && !PyBuffer_IsContiguous(&view_, 'C');
  }
  return info;
}

namespace {

bool IsNumpyArray(PyObject* object) {
  for (const PyTypeObject* type = Py_TYPE(object); type != nullptr; type = type->tp_base) {
    if (std::string_view(type->tp_name) == "numpy.ndarray") return true;
  }
  return false;
}

// Whether `object`, which nobody but the asker refers to, owns its memory, or has it from an object that only it refers to.
bool HasMemoryAlone(PyObject* object) {
  const bool may_own = PyByteArray_CheckExact(object) || IsNumpyArray(object);
  // A view of something else, such as a file's memory, may be this buffer's alone while that is in use.
  if (!may_own) return false;
  PyObject* base = PyObject_GetAttrString(object, "base");
  if (base == nullptr) PyErr_Clear();
  constexpr Py_ssize_t kObjectAndUs = 2;
  const bool is_alone = base == nullptr || base == Py_None || (Py_REFCNT(base) <= kObjectAndUs && HasMemoryAlone(base));
  Py_XDECREF(base);
  return is_alone;
}

}  // namespace

bool Buffer::IsAbandoned() const {
  return view_.obj != nullptr && Py_REFCNT(view_.obj) <= 1 && HasMemoryAlone(view_.obj);
}

}  // namespace kedge::python
