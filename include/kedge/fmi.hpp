// FMI for programs in C++: a call that a failure has ended throws kedge::fmi::Failure, and Loop goes back to the last checkpoint.
// The calls are those of kedge/fmi.h, or of MPI. Their results need not be looked at.
//
//   std::vector<double> cells = ...;
//   double change = 0;
//   kedge::fmi::Loop({cells, change}, [&](int number) {
//     if (number == steps) return Print(cells), false;
//     Step(&cells, &change);
//     return true;
//   });
//
// Objects of the step are destroyed, as by any exception. So a destructor that communicates must bear that its call does nothing:
// while objects are destroyed, calls return FMI_ERR_PROC_FAILED. docs/fmi.md says what leaks.
#ifndef KEDGE_FMI_HPP
#define KEDGE_FMI_HPP

#include <climits>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "fmi.h"

namespace kedge::fmi {

// A rank has died. Pass it on to Loop.
class Failure : public std::exception {
 public:
  const char* what() const noexcept override { return "a rank has died: FMI_Loop goes back to the last checkpoint"; }
};

// While there is one, calls throw Failure where they would return FMI_ERR_PROC_FAILED. There is one at a time.
class ThrowingCalls {
 public:
  ThrowingCalls() { FMI_On_failure(Throw, nullptr); }
  ~ThrowingCalls() { FMI_On_failure(nullptr, nullptr); }
  ThrowingCalls(const ThrowingCalls&) = delete;
  ThrowingCalls& operator=(const ThrowingCalls&) = delete;

 private:
  static void Throw(void*) {
    if (std::uncaught_exceptions() == 0) throw Failure();
  }
};

// What belongs into a checkpoint: a value, or the elements of a vector, which is looked at anew in each step, and has as many
// then. It must outlive the loop.
class Array {
 public:
  template <typename T>
  Array(T& value) : object_(&value), look_(&OfValue<T>) {  // NOLINT(google-explicit-constructor)
    static_assert(std::is_trivially_copyable_v<T>, "bytes are saved");
  }
  template <typename T>
  Array(std::vector<T>& values) : object_(&values), look_(&OfVector<T>) {  // NOLINT(google-explicit-constructor)
    static_assert(std::is_trivially_copyable_v<T>, "bytes are saved");
    static_assert(!std::is_same_v<T, bool>, "its elements have no addresses");
  }
  std::pair<void*, std::size_t> bytes() const { return look_(object_); }

 private:
  template <typename T>
  static std::pair<void*, std::size_t> OfValue(void* object) {
    return {object, sizeof(T)};
  }
  template <typename T>
  static std::pair<void*, std::size_t> OfVector(void* object) {
    auto& values = *static_cast<std::vector<T>*>(object);
    return {values.data(), values.size() * sizeof(T)};
  }

  void* object_;
  std::pair<void*, std::size_t> (*look_)(void*);
};

// What FMI_Loop and FMI_Inner_loop are given.
class ArrayList {
 public:
  explicit ArrayList(const std::vector<Array>& arrays) {
    for (const Array& array : arrays) {
      const auto [begin, bytes] = array.bytes();
      if (bytes > INT_MAX) throw std::length_error("an array of FMI_Loop has more bytes than an int counts");
      begins_.push_back(begin);
      sizes_.push_back(static_cast<int>(bytes));
    }
  }
  void** begins() { return begins_.data(); }
  int* sizes() { return sizes_.data(); }
  int count() const { return static_cast<int>(sizes_.size()); }

 private:
  std::vector<void*> begins_;
  std::vector<int> sizes_;
};

// FMI_Loop, and step(number) each time, until that is false. A step that a failure ends is made again, from the last checkpoint
// on. Other exceptions leave the loop. So what all ranks do together at the end belongs into the last step.
template <typename Step>
void Loop(const std::vector<Array>& arrays, Step step) {
  for (bool goes_on = true; goes_on;) {
    ArrayList list(arrays);
    const int number = FMI_Loop(list.begins(), list.sizes(), list.count());
    try {
      const ThrowingCalls throwing;
      goes_on = step(number);
    } catch (const Failure&) {
    }
  }
}

// FMI_Inner_loop within a step of Loop, and turn(number) each time, until that is false. Failures pass through it, to Loop.
template <typename Turn>
void InnerLoop(const char* name, const std::vector<Array>& arrays, Turn turn) {
  for (bool goes_on = true; goes_on;) {
    ArrayList list(arrays);
    const int number = FMI_Inner_loop(name, list.begins(), list.sizes(), list.count());
    if (number == FMI_OUTER_LOOP) throw Failure();
    goes_on = turn(number);
  }
}

}  // namespace kedge::fmi

#endif
