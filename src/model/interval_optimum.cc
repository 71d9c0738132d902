#include "model/interval_optimum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace kedge {
namespace {

using Counts = std::vector<int>;

constexpr double kShortestSeconds = 1e-3;
constexpr double kGridRatio = 3.0;
constexpr int64_t kMostSegmentsTried = 100'000;
constexpr double kLogTolerance = 3e-4;
constexpr double kRoughTolerance = 2e-2;
constexpr double kLeastGain = 1e-5;  // a move that gains less is not made: with high counts the cost is flat
constexpr int kMostMoves = 200;
constexpr double kGlanceMargin = 2e-3;  // counts whose rough cost is higher by this are not looked at closely

struct Candidate {
  double cost = kInfinity;  // expected seconds per useful second
  double interval_seconds = 0;
  Counts counts;
};

struct Point {
  double cost;
  double x;  // logarithm of the interval
  bool operator<(const Point& other) const { return cost != other.cost ? cost < other.cost : x < other.x; }
};

int64_t SegmentsOf(const Counts& counts) {
  int64_t segments = 1;
  for (const int count : counts) segments = std::min(segments * (int64_t{count} + 1), kMostSegmentsTried + 1);
  return segments;
}

// The minimum of a function with one valley in [left, right].
Point GoldenSection(const std::function<double(double)>& function, double left, double right, double tolerance) {
  const double golden = (std::sqrt(5.0) - 1) / 2;
  Point low{0, right - golden * (right - left)};
  Point high{0, left + golden * (right - left)};
  low.cost = function(low.x);
  high.cost = function(high.x);
  while (right - left > tolerance) {
    if (low.cost <= high.cost) {
      right = high.x;
      high = low;
      low.x = right - golden * (right - left);
      low.cost = function(low.x);
    } else {
      left = low.x;
      low = high;
      high.x = left + golden * (right - left);
      high.cost = function(high.x);
    }
  }
  return std::min(low, high);
}

// The steps in order, each once, without negative ones and without staying at `present`.
std::vector<int> Distinct(std::initializer_list<int> steps, int present) {
  std::vector<int> distinct;
  for (const int step : steps) {
    if (step >= 0 && step != present && std::ranges::find(distinct, step) == distinct.end()) distinct.push_back(step);
  }
  return distinct;
}

// One count up or down, by a factor or by one, and trades between two counts, the larger steps first; with a bounded
// number of segments.
std::vector<Counts> Neighbours(const Counts& counts) {
  std::vector<Counts> found;
  const auto add = [&found](Counts moved) {
    if (SegmentsOf(moved) <= kMostSegmentsTried) found.push_back(std::move(moved));
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const int count = counts[i];
    for (const int step : Distinct({count * 3 + 2, count / 3, static_cast<int>(std::nearbyint(count * 1.5)),
                                    static_cast<int>(std::nearbyint(count / 1.5)), count + 1, count - 1, 0},
                                   count)) {
      Counts moved = counts;
      moved[i] = step;
      add(std::move(moved));
    }
  }
  for (size_t i = 0; i + 1 < counts.size(); ++i) {
    const int first = counts[i];
    const double total = (first + 1.0) * (counts[i + 1] + 1.0);
    for (const int step : Distinct({first * 2 + 1, first / 2, first + 1, first - 1}, first)) {
      Counts moved = counts;
      moved[i] = step;
      moved[i + 1] = std::max(0, static_cast<int>(std::nearbyint(total / (step + 1))) - 1);
      add(std::move(moved));
    }
  }
  return found;
}

class Search {
 public:
  explicit Search(const IntervalSystem& system) : system_(system) {}

  // The best of the first-order counts, none or one lower level at all, and with two levels a range of counts.
  Candidate Start() {
    const Counts guess = FirstOrderCounts();
    Candidate best = BestInterval(guess, 0);
    std::vector<Counts> starts = {Counts(guess.size(), 0)};
    for (size_t place = 0; place < guess.size(); ++place) {
      starts.emplace_back(guess.size(), 0);
      starts.back()[place] = 1;
    }
    if (guess.size() == 1) {
      for (int power = 1; power <= 10; ++power) starts.push_back({1 << power});
    }
    for (const Counts& counts : starts) {
      const Candidate glanced = GlanceBoth(counts, best);
      if (glanced.cost > best.cost * (1 + kGlanceMargin)) continue;
      const Candidate candidate = BestInterval(counts, glanced.interval_seconds);
      if (candidate.cost < best.cost) best = candidate;
    }
    return best;
  }

  // The best interval for `counts`, looked for around `near`, or over the whole range where `near` is 0.
  Candidate BestInterval(const Counts& counts, double near) {
    const auto known = found_.find(counts);
    if (known != found_.end()) return known->second;
    const auto [low, high] = Range(counts);
    double middle = std::clamp(near, low, high);
    if (near == 0) {
      const int steps = std::max(2, static_cast<int>(std::ceil(std::log(high / low) / std::log(kGridRatio))) + 1);
      Point best{kInfinity, 0};
      for (int i = 0; i < steps; ++i) {
        const double interval = low * std::pow(high / low, static_cast<double>(i) / (steps - 1));
        const double cost = Cost(interval, counts);
        if (i == 0 || cost < best.cost) best = {cost, interval};
      }
      middle = best.x;
    }
    return found_[counts] = Descend(counts, middle, kRoughTolerance, 1.5);
  }

  // Moves counts while it helps.
  Candidate Improve(Candidate best) {
    bool improved = true;
    for (int move = 0; improved && move < kMostMoves; ++move) {
      improved = false;
      for (const Counts& counts : Neighbours(best.counts)) {
        if (passed_over_.contains(counts)) continue;
        double near = 0;  // not looked at where the interval is known
        if (!found_.contains(counts)) {
          const Candidate glanced = GlanceBoth(counts, best);
          if (glanced.cost > best.cost * (1 + kGlanceMargin)) {
            passed_over_.insert(counts);
            continue;
          }
          near = glanced.interval_seconds;
        }
        Candidate candidate = BestInterval(counts, near);
        if (candidate.cost < best.cost * (1 - kLeastGain)) {
          best = std::move(candidate);
          improved = true;
          break;
        }
      }
    }
    return best;
  }

  // The same counts, the interval to full precision.
  IntervalOptimum Polish(const Candidate& candidate) {
    const Candidate best = Descend(candidate.counts, candidate.interval_seconds, kLogTolerance, 1.05);
    return {{best.interval_seconds, best.counts}, std::isfinite(best.cost) ? 1 / best.cost : 0};
  }

 private:
  double Cost(double interval_seconds, const Counts& counts) const {
    const Result<double> efficiency = IntervalEfficiency(system_, {interval_seconds, counts});
    return efficiency.ok() && *efficiency > 0 ? 1 / *efficiency : kInfinity;
  }

  // The shortest interval in which every copy fits, and the longest with one period inside the work.
  std::pair<double, double> Range(const Counts& counts) const {
    const double low = std::max(kShortestSeconds, ShortestInterval(system_, counts) * (1 + 1e-12));
    return {low, std::max(system_.work_seconds / static_cast<double>(SegmentsOf(counts)), low)};
  }

  // Brackets the minimum around `middle` by steps of `ratio` within the range, then golden section.
  Candidate Descend(const Counts& counts, double middle, double tolerance, double ratio) const {
    const auto cost_at = [&](double x) { return Cost(std::exp(x), counts); };
    const auto [low, high] = Range(counts);
    const double step = std::log(ratio);
    const double lowest = std::log(low);
    const double highest = std::log(high);
    Point centre{0, std::log(std::clamp(middle, low, high))};
    Point left{0, std::max(lowest, centre.x - step)};
    Point right{0, std::min(highest, centre.x + step)};
    for (Point* point : {&centre, &left, &right}) point->cost = cost_at(point->x);
    while (left.cost < centre.cost && left.x > lowest) {
      right = centre;
      centre = left;
      left.x = std::max(lowest, left.x - step);
      left.cost = cost_at(left.x);
    }
    while (right.cost < centre.cost && right.x < highest) {
      left = centre;
      centre = right;
      right.x = std::min(highest, right.x + step);
      right.cost = cost_at(right.x);
    }
    const Point best = std::min({left, centre, right, GoldenSection(cost_at, left.x, right.x, tolerance)});
    return {best.cost, std::exp(best.x), counts};
  }

  // Roughly the best interval around `near`: three costs and the bottom of their parabola.
  Candidate Glance(const Counts& counts, double near) const {
    const auto [low, high] = Range(counts);
    const double step = std::log(1.4);
    const double middle = std::clamp(std::log(near), std::log(low), std::log(high));
    std::array<Point, 4> points;
    for (int i = 0; i < 3; ++i) {
      const double x = middle + (i - 1) * step;
      points[static_cast<size_t>(i)] = {Cost(std::exp(x), counts), x};
    }
    points[3] = points[1];
    const double below = points[0].cost;
    const double at = points[1].cost;
    const double above = points[2].cost;
    if (std::isfinite(below) && std::isfinite(above) && below + above > 2 * at) {
      const double shift = 0.5 * step * (below - above) / (below - 2 * at + above);
      const double bottom = std::clamp(middle + std::clamp(shift, -2 * step, 2 * step), std::log(low), std::log(high));
      points[3] = {Cost(std::exp(bottom), counts), bottom};
    }
    const Point best = *std::min_element(points.begin(), points.end());
    return {best.cost, std::exp(best.x), counts};
  }

  // The better glance of two: with the interval of a known schedule, and with its period.
  Candidate GlanceBoth(const Counts& counts, const Candidate& known) const {
    const double growth = static_cast<double>(SegmentsOf(counts)) / static_cast<double>(SegmentsOf(known.counts));
    const Candidate same_interval = Glance(counts, known.interval_seconds);
    const Candidate same_period = Glance(counts, known.interval_seconds / growth);
    return same_period.cost < same_interval.cost ? same_period : same_interval;
  }

  // From sqrt(2 (O_k - O_(k-1)) / lambda_k), the best period of each level when taken alone.
  Counts FirstOrderCounts() const {
    std::vector<double> periods;
    double below = 0;
    for (const IntervalLevel& level : system_.levels) {
      const double extra = std::max(level.overhead_seconds - below, 0.02 * level.overhead_seconds);
      below = level.overhead_seconds;
      const double rate = std::max(level.failure_rate_per_second, 1 / (100 * system_.work_seconds));
      periods.push_back(std::max(std::sqrt(2 * extra / rate), level.latency_seconds - level.overhead_seconds));
    }
    Counts counts;
    int64_t segments = 1;
    for (size_t i = 0; i + 1 < periods.size(); ++i) {
      const double ratio = periods[i] > 0 ? std::min(periods[i + 1] / periods[i], 1000.0) : 11;
      const int64_t wished = static_cast<int64_t>(std::nearbyint(ratio)) - 1;
      counts.push_back(static_cast<int>(std::max<int64_t>(0, std::min(wished, kMostSegmentsTried / segments - 1))));
      segments *= counts.back() + 1;
    }
    return counts;
  }

  const IntervalSystem& system_;
  std::map<Counts, Candidate> found_;
  std::set<Counts> passed_over_;
};

}  // namespace

Result<IntervalOptimum> BestSchedule(const IntervalSystem& system) {
  KEDGE_RETURN_IF_ERROR(CheckIntervalSystem(system));
  Search search(system);
  return search.Polish(search.Improve(search.Start()));
}

Result<IntervalOptimum> BestInterval(const IntervalSystem& system, const std::vector<int>& counts) {
  KEDGE_RETURN_IF_ERROR(CheckIntervalSystem(system));
  // Checks the counts; that a second is too short an interval is no error here.
  const Result<double> known = ExpectedPeriodSeconds(system, {1, counts});
  if (!known.ok() && known.status().code() != Code::kFailedPrecondition) return known.status();
  Search search(system);
  return search.Polish(search.BestInterval(counts, 0));
}

}  // namespace kedge
