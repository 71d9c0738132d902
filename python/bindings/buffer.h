// A Python buffer (NumPy array, bytearray, memoryview, ...) held for as long as Kedge may read or write it.
//
// While it is held, Python itself refuses to resize or free the memory. The element type and the shape are taken from the
// buffer's format, so that `kedge inspect` and `export` know them. All functions need the GIL.
#pragma once

#include <Python.h>

#include <memory>
#include <string>

#include "kedge/kedge.h"

namespace kedge::python {

class Buffer {
 public:
  // Takes a contiguous (C or Fortran order) buffer of plain data in this machine's byte order, writable when `writable`. Returns
  // null with a Python error set when the object has none; the message says what the object is and what is wanted.
  static std::unique_ptr<Buffer> Take(PyObject* object, bool writable);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return view_.buf; }
  size_t bytes() const { return static_cast<size_t>(view_.len); }
  size_t element_bytes() const { return static_cast<size_t>(view_.itemsize > 0 ? view_.itemsize : 1); }
  size_t count() const { return bytes() / element_bytes(); }

  // Type, shape and order; `name` must outlive the use of the result.
  kedge_region_info Info(const char* name) const;
  // Nobody but this buffer refers to the array any more: what the program goes on with is another one.
  bool IsAbandoned() const;
  bool was_warned_of = false;

 private:
  Buffer() = default;
  Py_buffer view_{};
};

// Why elements of this buffer format are no plain data; null: they are. Names of fields are passed over.
const char* WhyNotPlain(const std::string& format);

// The element type of a buffer format (struct module; "Zd" is complex128).
// KEDGE_TYPE_BYTES for anything that has no counterpart (records, strings, dates).
kedge_type TypeOfFormat(const std::string& format, size_t element_bytes);

}  // namespace kedge::python
