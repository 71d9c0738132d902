// A named block of a context's heap, as arrays hold it: a Python object with a writable buffer of its bytes.
//
// It outlives the block, and the context: whoever takes the block out of the heap marks the memory as detached, and it goes with
// the last object that refers to it. All functions need the GIL.
#pragma once

#include <Python.h>

#include <cstddef>
#include <memory>

namespace kedge::python {

class HeapMemory {
 public:
  HeapMemory(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~HeapMemory();
  HeapMemory(const HeapMemory&) = delete;
  HeapMemory& operator=(const HeapMemory&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // It is this object's alone from now on (kedge_detach).
  void Detached() { is_detached_ = true; }

 private:
  void* data_;
  size_t bytes_;
  bool is_detached_ = false;
};

struct HeapBlock {
  std::shared_ptr<HeapMemory> memory;
};

// The slots of its Python type: the buffer protocol.
extern PyType_Slot kHeapBlockSlots[];

}  // namespace kedge::python
