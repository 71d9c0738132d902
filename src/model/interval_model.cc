#include "model/interval_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace kedge {
namespace {

// Below this a copy counts as complete, so that rounding makes no extra phase. Seconds.
constexpr double kCompleteWithin = 1e-9;
constexpr size_t kMostLevels = 8;
constexpr int64_t kMostSegments = 1'000'000;

// Levels are numbered from 1 here, as in the model; bit i - 1 of a mask stands for level i.
using Remaining = std::vector<double>;
using Mask = uint32_t;

bool Contains(Mask mask, int level) {
  return (mask >> (level - 1) & 1) != 0;
}
Mask FromLevelUp(Mask mask, int level) {
  return mask >> (level - 1) << (level - 1);
}

struct Exit {
  int level;
  Mask mask;  // the levels from `level` up whose newest copy was complete when the failure struck
  double probability;
};

// A merged part of the chain.
struct Row {
  double passing = 1;
  std::vector<Exit> exits;
  double seconds = 0;

  void Leave(int level, Mask mask, double probability) {
    if (probability <= 0) return;
    for (Exit& exit : exits) {
      if (exit.level == level && exit.mask == mask) {
        exit.probability += probability;
        return;
      }
    }
    exits.push_back({level, mask, probability});
  }
  // Appends a part that begins when this one is passed.
  void Then(const Row& following) {
    for (const Exit& exit : following.exits) Leave(exit.level, exit.mask, passing * exit.probability);
    seconds += passing * following.seconds;
    passing *= following.passing;
  }
  double Leaving() const {
    return std::accumulate(exits.begin(), exits.end(), 0.0, [](double sum, const Exit& e) { return sum + e.probability; });
  }
};

// `times` equal rows in sequence: a geometric sum, accurate where leaving is improbable.
Row Repeated(const Row& row, int times) {
  if (times == 1) return row;
  const double leaving = row.Leaving();
  Row sequence;
  double weight = times;
  if (leaving >= 1 || row.passing <= 0) {
    sequence.passing = 0;
    weight = 1;
  } else if (leaving > 0) {
    const double exponent = times * std::log1p(-leaving);
    sequence.passing = std::exp(exponent);
    weight = -std::expm1(exponent) / leaving;
  }
  sequence.seconds = row.seconds * weight;
  for (const Exit& exit : row.exits) sequence.Leave(exit.level, exit.mask, exit.probability * weight);
  return sequence;
}

// A loop back to the start of the row: division by 1 - loop, taken as the sum of the other ways out so that nothing
// cancels.
Row CloseLoop(Row row, double loop) {
  if (loop == 0) return row;
  const double leaving = row.passing + row.Leaving();
  if (leaving <= 0) return {0, {}, kInfinity};
  const double visits = (leaving + loop) / leaving;
  row.passing *= visits;
  row.seconds *= visits;
  for (Exit& exit : row.exits) exit.probability *= visits;
  return row;
}

std::optional<double> NextCompletion(const double* begin, const double* end) {
  std::optional<double> next;
  for (; begin != end; ++begin) {
    if (*begin > kCompleteWithin && (!next || *begin < *next)) next = *begin;
  }
  return next;
}
std::optional<double> NextCompletion(const Remaining& remaining) {
  return NextCompletion(remaining.data(), remaining.data() + remaining.size());
}

Mask ReadyMask(const Remaining& remaining) {
  Mask mask = 0;
  for (size_t i = 0; i < remaining.size(); ++i) mask |= remaining[i] <= kCompleteWithin ? Mask{1} << i : 0;
  return mask;
}

double Background(const IntervalLevel& level) {
  return level.latency_seconds - level.overhead_seconds;
}

// Levels of the copies that a checkpoint leaves: its own, and where it is asynchronous those that it starts from.
std::vector<std::vector<int>> CopiesOf(const IntervalSystem& system) {
  std::vector<std::vector<int>> copies;
  for (size_t i = 0; i < system.levels.size(); ++i) {
    std::vector<int> own;
    if (i > 0 && system.levels[i].asynchronous) own = copies.back();
    own.push_back(static_cast<int>(i) + 1);
    copies.push_back(std::move(own));
  }
  return copies;
}

// Segments in a k-block (from one checkpoint of level k or above to the next), k = 1 ... N.
std::vector<int64_t> LengthsOf(const std::vector<int>& counts) {
  std::vector<int64_t> lengths = {1};
  for (const int count : counts) lengths.push_back(lengths.back() * (int64_t{count} + 1));
  return lengths;
}

// Blocked seconds of the checkpoints inside a k-block, without the one that ends it.
double BlockedInside(const IntervalSystem& system, const std::vector<int>& counts, int block_level) {
  const std::vector<int64_t> lengths = LengthsOf(counts);
  double seconds = 0;
  for (int level = 1; level < block_level; ++level) {
    const int64_t inner = lengths[block_level - 1] / lengths[level - 1];
    seconds += static_cast<double>(inner - inner / (counts[level - 1] + 1)) * system.levels[level - 1].overhead_seconds;
  }
  return seconds;
}

class Merger {
 public:
  Merger(const IntervalSystem& system, const IntervalSchedule& schedule)
      : system_(system),
        schedule_(schedule),
        copies_(CopiesOf(system)),
        lengths_(LengthsOf(schedule.counts)),
        top_(static_cast<int>(system.levels.size())) {
    for (const IntervalLevel& level : system.levels) total_rate_ += level.failure_rate_per_second;
    for (int level = 1; level <= top_; ++level) blocked_inside_.push_back(BlockedInside(system, schedule.counts, level));
  }

  double PeriodSeconds() { return Block(top_, top_, top_, top_, Fresh(top_)).seconds; }

 private:
  using Key = std::tuple<int, int, int, int, Remaining>;

  const IntervalLevel& Level(int level) const { return system_.levels[level - 1]; }
  double FailProbability(double duration) const { return -std::expm1(-total_rate_ * duration); }
  double ExpectedSeconds(double duration) const {
    return total_rate_ * duration < 1e-12 ? duration : FailProbability(duration) / total_rate_;
  }

  // The lowest copy of a checkpoint that answers a failure of the level.
  int RestoreLevel(int checkpoint_level, int failure_level) const {
    for (const int copy : copies_[checkpoint_level - 1]) {
      if (copy >= failure_level) return copy;
    }
    return checkpoint_level;
  }

  // Until each level up to that of the checkpoint is answered, right after it.
  Remaining Fresh(int checkpoint_level) const {
    Remaining fresh;
    for (int level = 1; level <= checkpoint_level; ++level) {
      fresh.push_back(Background(Level(RestoreLevel(checkpoint_level, level))));
    }
    return fresh;
  }

  // Wall time of a block without failures, slowed down throughout, with its last checkpoint.
  double Wall(int block_level, int end_level) const {
    return static_cast<double>(lengths_[block_level - 1]) * (1 + system_.alpha) * schedule_.interval_seconds +
           blocked_inside_[block_level - 1] + Level(end_level).overhead_seconds;
  }

  Remaining Clip(Remaining remaining, int level, int end_level) const {
    const double longest = Wall(level, end_level);
    for (double& value : remaining) value = value < longest ? value : kInfinity;
    return remaining;
  }

  void Phase(Row* row, Remaining* left, double duration) const {
    const double failing = FailProbability(duration);
    const Mask mask = ReadyMask(*left);
    Row phase;
    phase.passing = std::exp(-total_rate_ * duration);
    phase.seconds = ExpectedSeconds(duration);
    for (int level = 1; level <= top_; ++level) {
      const double rate = Level(level).failure_rate_per_second;
      if (rate > 0) phase.Leave(level, FromLevelUp(mask, level), rate / total_rate_ * failing);
    }
    row->Then(phase);
    for (double& value : *left) value = value - duration > kCompleteWithin ? value - duration : 0;
  }

  // One segment and the checkpoint that ends it, cut into phases wherever a copy becomes complete.
  Row Segment(int end_level, Remaining left) const {
    Row row;
    double work = schedule_.interval_seconds;
    double checkpoint = Level(end_level).overhead_seconds;
    while (work > 0) {
      const std::optional<double> pending = NextCompletion(left);
      const double slow = pending ? 1 + system_.alpha : 1;
      double duration = slow * work;
      if (pending && *pending < duration * (1 - 1e-15)) {
        duration = *pending;
        work -= duration / slow;
      } else {
        work = 0;
      }
      Phase(&row, &left, duration);
    }
    while (checkpoint > 0) {
      const std::optional<double> pending = NextCompletion(left);
      const double duration = pending ? std::min(*pending, checkpoint) : checkpoint;
      checkpoint -= duration;
      Phase(&row, &left, duration);
    }
    return row;
  }

  // A k-block after a checkpoint of `start_level`, ended by one of `end_level`, with failures of level k answered.
  // `before`: the level of the checkpoint that began the block of level `start_level` before this one.
  const Row& Block(int level, int end_level, int start_level, int before, const Remaining& remaining) {
    Remaining clipped = Clip(remaining, level, end_level);
    Key key(level, end_level, start_level, before, clipped);
    const auto found = blocks_.find(key);
    if (found != blocks_.end()) return found->second;
    Row merged = MergeBlock(level, end_level, start_level, before, clipped);
    return blocks_.emplace(std::move(key), std::move(merged)).first->second;
  }

  // The (k-1)-blocks inside a k-block, or its one segment; failures of level k still leave.
  Row Inside(int level, int end_level, int start_level, int before, Remaining remaining) {
    if (level == 1) return Segment(end_level, std::move(remaining));
    Row row;
    const int inner = level - 1;
    const int count = schedule_.counts[inner - 1];
    for (int index = 0; index <= count;) {
      const int end = index < count ? inner : end_level;
      const int start = index == 0 ? start_level : inner;
      const int previous = index == 0 ? before : (index == 1 ? start_level : inner);
      const bool steady = index >= 2 && index < count;
      const int times = steady ? EqualParts(count - index, remaining, inner) : 1;
      row.Then(Repeated(Block(inner, end, start, previous, remaining), times));
      remaining = After(inner, end, remaining, times);
      index += times;
    }
    return row;
  }

  // How many inner blocks are equal from here: until the next copy of a higher level becomes complete inside one.
  int EqualParts(int at_most, const Remaining& remaining, int inner) const {
    const std::optional<double> pending = NextCompletion(remaining.data() + inner, remaining.data() + remaining.size());
    if (!pending || std::isinf(*pending)) return at_most;
    return std::max(1, static_cast<int>(std::min<double>(at_most, *pending / Wall(inner, inner))));
  }

  Remaining After(int inner, int end_level, const Remaining& remaining, int times) const {
    Remaining after = Fresh(end_level);
    const double elapsed = times * Wall(inner, end_level);
    for (size_t i = static_cast<size_t>(end_level); i < remaining.size(); ++i) {
      after.push_back(remaining[i] - elapsed > kCompleteWithin ? remaining[i] - elapsed : 0);
    }
    return after;
  }

  Row MergeBlock(int level, int end_level, int start_level, int before, const Remaining& remaining) {
    const Row inside = Inside(level, end_level, start_level, before, remaining);
    double loop = 0;
    Row merged;
    merged.passing = inside.passing;
    merged.seconds = inside.seconds;
    for (const Exit& exit : inside.exits) {
      if (exit.level > level) {
        merged.Leave(exit.level, exit.mask, exit.probability);
        continue;
      }
      auto [back, start] = Answer(level, start_level, before, remaining, exit.mask);
      start = Clip(std::move(start), level, end_level);
      for (const Exit& further : back.exits) {
        merged.Leave(further.level, further.mask, exit.probability * further.probability);
      }
      merged.seconds += exit.probability * back.seconds;
      const double again = exit.probability * back.passing;
      if (start == remaining) {
        loop += again;
      } else if (again > 0) {
        const Row& following = Block(level, end_level, start_level, before, start);
        for (const Exit& further : following.exits) {
          merged.Leave(further.level, further.mask, again * further.probability);
        }
        merged.seconds += again * following.seconds;
        merged.passing += again * following.passing;
      }
    }
    return CloseLoop(std::move(merged), loop);
  }

  // From a failure of `level` inside its block back to the start of the block: the row, and what remains there.
  std::pair<Row, Remaining> Answer(int level, int start_level, int before, const Remaining& remaining, Mask mask) {
    if (!Contains(mask, level)) return AnswerOneBlockBack(level, start_level, before, remaining, mask);
    const int restored = RestoreLevel(start_level, level);
    Remaining kept = remaining;
    for (int number = 1; number <= static_cast<int>(kept.size()); ++number) {
      if (number <= restored || Contains(mask, number)) kept[number - 1] = 0;
    }
    return {Restart(restored, mask), std::move(kept)};
  }

  // The copy was still in the background: restart from the block before, make it again, and be back.
  std::pair<Row, Remaining> AnswerOneBlockBack(int level, int start_level, int before, const Remaining& remaining, Mask mask) {
    int previous = before;
    for (int number = start_level - 1; number >= level; --number) {
      if (schedule_.counts[number - 1] > 0) previous = number;
    }
    const int restored = RestoreLevel(previous, level);
    const double wall = Wall(level, start_level);
    Remaining earlier = remaining;
    for (int number = 1; number <= static_cast<int>(earlier.size()); ++number) {
      const bool complete = number <= std::max(restored, start_level) || Contains(mask, number);
      earlier[number - 1] = complete ? 0 : earlier[number - 1] + wall;
    }
    Row row = Restart(restored, mask);
    row.Then(Block(level, start_level, previous, before, earlier));
    // Seen from here, the copies of this block's own checkpoint are not complete.
    std::vector<Exit> exits = std::exchange(row.exits, {});
    const Mask own = (Mask{1} << start_level) - 1;
    for (const Exit& exit : exits) {
      row.Leave(exit.level, exit.level <= start_level ? exit.mask & ~own : exit.mask, exit.probability);
    }
    Remaining start = Fresh(start_level);
    for (int number = start_level + 1; number <= static_cast<int>(remaining.size()); ++number) {
      start.push_back(Contains(mask, number) ? 0 : remaining[number - 1]);
    }
    return {std::move(row), std::move(start)};
  }

  // Lower failures repeat a restart; those from its level up leave it, one level higher.
  Row Restart(int level, Mask mask) const {
    const double duration = Level(level).restart_seconds;
    const double failing = FailProbability(duration);
    Row row;
    row.passing = std::exp(-total_rate_ * duration);
    row.seconds = ExpectedSeconds(duration);
    double loop = 0;
    for (int number = 1; number <= top_; ++number) {
      const double rate = Level(number).failure_rate_per_second;
      const double probability = rate > 0 ? rate / total_rate_ * failing : 0;
      if (number < level || level == top_) {
        loop += probability;
      } else {
        const int taken_as = std::max(number, level + 1);
        row.Leave(taken_as, FromLevelUp(mask, taken_as), probability);
      }
    }
    return CloseLoop(std::move(row), loop);
  }

  const IntervalSystem& system_;
  const IntervalSchedule& schedule_;
  const std::vector<std::vector<int>> copies_;
  const std::vector<int64_t> lengths_;
  const int top_;
  std::vector<double> blocked_inside_;
  double total_rate_ = 0;
  std::map<Key, Row> blocks_;
};

Status CheckNumber(double value, double least, const char* what, size_t level) {
  if (std::isfinite(value) && value >= least) return Status::Ok();
  return Status(Code::kInvalidArgument,
                fmt::format("level {}: {} is {}, must be a finite number of at least {}", level, what, value, least));
}

Status CheckCounts(const IntervalSystem& system, const std::vector<int>& counts) {
  if (counts.size() + 1 != system.levels.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} counts for {} levels, must be one fewer", counts.size(), system.levels.size()));
  }
  int64_t segments = 1;
  for (const int count : counts) {
    if (count < 0) return Status(Code::kInvalidArgument, fmt::format("a count is {}, must be at least 0", count));
    segments *= int64_t{count} + 1;
    if (segments > kMostSegments) {
      return Status(Code::kInvalidArgument, fmt::format("more than {} checkpoints in one period", kMostSegments));
    }
  }
  return Status::Ok();
}

}  // namespace

Status CheckIntervalSystem(const IntervalSystem& system) {
  if (system.levels.empty() || system.levels.size() > kMostLevels) {
    return Status(Code::kInvalidArgument, fmt::format("{} levels, must be from 1 to {}", system.levels.size(), kMostLevels));
  }
  if (!(system.work_seconds > 0) || !std::isfinite(system.work_seconds)) {
    return Status(Code::kInvalidArgument, fmt::format("work_seconds is {}, must be above 0", system.work_seconds));
  }
  if (!(system.alpha >= 0) || !std::isfinite(system.alpha)) {
    return Status(Code::kInvalidArgument, fmt::format("alpha is {}, must be at least 0", system.alpha));
  }
  for (size_t i = 0; i < system.levels.size(); ++i) {
    const IntervalLevel& level = system.levels[i];
    KEDGE_RETURN_IF_ERROR(CheckNumber(level.overhead_seconds, 0, "overhead_seconds", i));
    KEDGE_RETURN_IF_ERROR(CheckNumber(level.latency_seconds, level.overhead_seconds, "latency_seconds", i));
    KEDGE_RETURN_IF_ERROR(CheckNumber(level.restart_seconds, 0, "restart_seconds", i));
    KEDGE_RETURN_IF_ERROR(CheckNumber(level.failure_rate_per_second, 0, "failure_rate_per_second", i));
    if (!level.asynchronous && level.latency_seconds != level.overhead_seconds) {
      return Status(Code::kInvalidArgument,
                    fmt::format("level {}: synchronous, but its latency of {} s is not its overhead of {} s", i,
                                level.latency_seconds, level.overhead_seconds));
    }
    const bool chained = i > 0 && level.asynchronous && system.levels[i - 1].asynchronous;
    if (chained && Background(level) < Background(system.levels[i - 1]) - 1e-9 * level.latency_seconds) {
      return Status(Code::kInvalidArgument,
                    fmt::format("level {}: its copy takes {} s in the background, less than the {} s of the level below", i,
                                Background(level), Background(system.levels[i - 1])));
    }
  }
  return Status::Ok();
}

double ShortestInterval(const IntervalSystem& system, const std::vector<int>& counts) {
  const std::vector<std::vector<int>> copies = CopiesOf(system);
  const std::vector<int64_t> lengths = LengthsOf(counts);
  double shortest = 0;
  for (size_t i = 0; i < system.levels.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    bool used = false;
    for (size_t checkpoint = i; checkpoint < copies.size(); ++checkpoint) {
      const bool taken = checkpoint + 1 == copies.size() || counts[checkpoint] > 0;
      used = used || (taken && std::ranges::find(copies[checkpoint], number) != copies[checkpoint].end());
    }
    if (!used) continue;
    const double slope = static_cast<double>(lengths[i]) * (1 + system.alpha);
    shortest = std::max(shortest, (Background(system.levels[i]) - BlockedInside(system, counts, number)) / slope);
  }
  return shortest;
}

Result<double> ExpectedPeriodSeconds(const IntervalSystem& system, const IntervalSchedule& schedule) {
  KEDGE_RETURN_IF_ERROR(CheckIntervalSystem(system));
  KEDGE_RETURN_IF_ERROR(CheckCounts(system, schedule.counts));
  if (!(schedule.interval_seconds > 0) || !std::isfinite(schedule.interval_seconds)) {
    return Status(Code::kInvalidArgument, fmt::format("interval_seconds is {}, must be above 0", schedule.interval_seconds));
  }
  const double shortest = ShortestInterval(system, schedule.counts);
  if (schedule.interval_seconds < shortest * (1 - 1e-12)) {
    return Status(Code::kFailedPrecondition,
                  fmt::format("an interval of {} s is shorter than {} s, in which each copy in the background is complete "
                              "before the next of its level begins",
                              schedule.interval_seconds, shortest));
  }
  return Merger(system, schedule).PeriodSeconds();
}

Result<double> IntervalEfficiency(const IntervalSystem& system, const IntervalSchedule& schedule) {
  KEDGE_ASSIGN_OR_RETURN(const double period, ExpectedPeriodSeconds(system, schedule));
  if (!std::isfinite(period)) return 0.0;
  return schedule.interval_seconds * static_cast<double>(LengthsOf(schedule.counts).back()) / period;
}

}  // namespace kedge
