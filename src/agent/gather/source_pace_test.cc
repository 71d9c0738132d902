// An application whose steps take longer the faster its node is read, on paper.
#include "agent/gather/source_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace kedge {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;
using ::testing::Optional;

// Steps of 10 ms; `alpha`: by what part of itself a step takes longer where 1 GB/s are read.
class Application {
 public:
  Application(double alpha, double allowed, double read_bytes_per_second = 1e9)
      : alpha_(alpha), unlimited_(read_bytes_per_second), pace_(allowed) {}
  // A second alone, then an image of 1 GB that is read.
  void TakeVersion() {
    for (int i = 0; i < 5; ++i) Pass(0);
    for (double left = 1e9; left > 0;) {
      const double rate = pace_.rate() == 0 ? unlimited_ : std::min(unlimited_, static_cast<double>(pace_.rate()));
      rates_.push_back(rate);
      left -= rate * kTickSeconds;
      Pass(rate);
    }
    pace_.AddRead(1'000'000'000);
  }
  // The rates that were read at.
  std::vector<double> TakeVersions(int versions) {
    rates_.clear();
    for (int i = 0; i < versions; ++i) TakeVersion();
    return rates_;
  }
  void Change(double alpha) { alpha_ = alpha; }
  const SourcePace& pace() const { return pace_; }

 private:
  static constexpr double kTickSeconds = 0.2;
  void Pass(double rate) {
    partial_ += kTickSeconds / (0.010 * (1 + alpha_ * rate / 1e9));
    const auto steps = static_cast<uint64_t>(partial_);
    partial_ -= static_cast<double>(steps);
    pace_.Add(steps, milliseconds(200), rate > 0);
  }

  double alpha_;
  const double unlimited_;
  SourcePace pace_;
  double partial_ = 0;
  std::vector<double> rates_;
};

TEST(SourcePaceTest, ReadsAsFastAsItCanWhereThatSlowsNobody) {
  Application application(0.01, 0.05);
  EXPECT_THAT(application.TakeVersions(30), Each(1e9));
  EXPECT_THAT(application.pace().slowdown(), Optional(Le(0.02)));
}

TEST(SourcePaceTest, ComesToTheRateThatIsAllowed) {
  Application application(0.5, 0.05);  // allowed: 100 MB/s
  application.TakeVersions(10);
  EXPECT_THAT(application.TakeVersions(20), Each(AllOf(Ge(40e6), Le(130e6))));
}

TEST(SourcePaceTest, GoesUpAgainWhenTheApplicationBearsIt) {
  Application application(0.5, 0.05);
  application.TakeVersions(10);
  application.Change(0.01);
  application.TakeVersions(30);
  EXPECT_EQ(application.pace().rate(), 0u);
}

TEST(SourcePaceTest, IsNeverTakenForStuck) {
  Application application(1000, 0.05);
  application.TakeVersions(20);
  EXPECT_EQ(application.pace().rate(), 4u << 20);
}

TEST(SourcePaceTest, NothingIsLimitedWhereEverythingIsAllowed) {
  Application application(10, 0);
  EXPECT_THAT(application.TakeVersions(10), Each(1e9));
  EXPECT_THAT(application.pace().slowdown(), Optional(Ge(5.0)));
}

TEST(SourcePaceTest, WithoutStepsNothingIsKnown) {
  SourcePace pace(0.05);
  for (int i = 0; i < 1000; ++i) pace.Add(0, milliseconds(200), i % 2 == 0);
  pace.AddRead(1 << 30);
  EXPECT_EQ(pace.slowdown(), std::nullopt);
  EXPECT_EQ(pace.rate(), 0u);
}

}  // namespace
}  // namespace kedge
