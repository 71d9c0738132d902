#include "heap_block.h"

#include <nanobind/nanobind.h>
#include <sys/mman.h>

#include <algorithm>

namespace kedge::python {
namespace {

constexpr size_t kUnitBytes = size_t{64} << 10;  // kedge_detach gives whole multiples

int GetBuffer(PyObject* object, Py_buffer* view, int flags) {
  const HeapMemory& memory = *nanobind::inst_ptr<HeapBlock>(object)->memory;
  return PyBuffer_FillInfo(view, object, memory.data(), static_cast<Py_ssize_t>(memory.bytes()), 0, flags);
}

}  // namespace

HeapMemory::~HeapMemory() {
  if (is_detached_) munmap(data_, std::max<size_t>(1, (bytes_ + kUnitBytes - 1) / kUnitBytes) * kUnitBytes);
}

PyType_Slot kHeapBlockSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)}, {0, nullptr}};

}  // namespace kedge::python
