// What a C++ program allocates: containers of its own come back; as steps.c, in C++.
#include <kedge/kedge.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace {

struct alignas(1024) Page {
  double values[128];
};

struct Roots {
  std::vector<double>* field;
  std::vector<Page>* pages;
};

void Require(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_first = argc > 1 && std::strcmp(argv[1], "first") == 0;
  auto made = kedge::Context::Open();
  Require(made.has_value(), "init");
  kedge::Context& context = *made;
  // The containers themselves are small: they lie in memory that the program protects.
  static unsigned char memory[sizeof(std::vector<double>)], more[sizeof(std::vector<Page>)];
  Require(context.Protect(0, kedge::Span<unsigned char>(memory, sizeof memory)).has_value(), "protect");
  Require(context.Protect(1, kedge::Span<unsigned char>(more, sizeof more)).has_value(), "protect");
  auto* const field = reinterpret_cast<std::vector<double>*>(memory);
  auto* const pages = reinterpret_cast<std::vector<Page>*>(more);
  if (is_first) {
    new (field) std::vector<double>(100000, 1.5);
    new (pages) std::vector<Page>(100);
    (*pages)[99].values[127] = 4;
    const std::unique_ptr<double[]> temporary(new double[100000]);
    temporary[0] = 1;
    bool has_failed = false;
    try {
      std::vector<char> all(size_t{1} << 46);
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
    Require(has_failed, "more than there is");
    Require(new (std::nothrow) char[size_t{1} << 46] == nullptr, "more than there is, without an exception");
    Require(context.Checkpoint("containers", 1).has_value(), "checkpoint");
    std::_Exit(0);  // as if it were killed
  }
  Require(context.Restart("containers").has_value(), "restart");
  Require(field->size() == 100000 && std::all_of(field->begin(), field->end(), [](double value) { return value == 1.5; }),
          "field");
  Require(reinterpret_cast<uintptr_t>(pages->data()) % alignof(Page) == 0 && (*pages)[99].values[127] == 4, "pages");
  field->resize(300000, 2.5);
  Require((*field)[0] == 1.5 && (*field)[299999] == 2.5, "grown");
  field->~vector();
  pages->~vector();
  std::printf("containers came back\n");
}
