// kedge/bb.hpp on the burst buffer "fast", which the configuration says how to reach.
#include <kedge/bb.hpp>
#include <numeric>

#include "steps.h"

int main() {
  EXPECT(!kedge::bb::Buffer::Connect("nowhere"));
  kedge::bb::Options other;
  other.owner = "nobody";
  const auto refused = kedge::bb::Buffer::Connect("fast", other);
  EXPECT(!refused && refused.error().code() == KEDGE_ERROR_TIMEOUT);
  auto buffer = kedge::bb::Buffer::Connect("fast");
  EXPECT(buffer);

  std::vector<double> values(700000);
  std::iota(values.begin(), values.end(), 0.5);
  {
    auto file = buffer->Create("cpp/values");
    EXPECT(file && file->Write(kedge::Span<const double>(values)) && file->position() == values.size() * sizeof(double));
    EXPECT(!buffer->Open("cpp/values"));
    EXPECT(file->Close(true));
    auto forgotten = buffer->Create("cpp/forgotten");
    EXPECT(forgotten && forgotten->Write("x", 1));
  }
  auto file = buffer->Open("cpp/values");
  std::vector<double> back(values.size());
  EXPECT(file && file->size() == values.size() * sizeof(double));
  EXPECT(file->Read(kedge::Span<double>(back)).value_or(0) == file->size() && back == values);
  EXPECT(file->Seek(8 * 500000) && file->Read(kedge::Span<double>(back.data(), 1)).value_or(0) == 8 && back[0] == 500000.5);
  const auto entries = buffer->List("cpp/");
  EXPECT(entries && entries->size() == 1 && entries->front().path == "cpp/values" && entries->front().bytes == file->size());
  EXPECT(buffer->Room() && buffer->Room()->own > file->size());
  EXPECT(buffer->Rename("cpp/values", "cpp/renamed") && buffer->Remove("cpp/renamed") && !buffer->Remove("cpp/values"));
  return 0;
}
