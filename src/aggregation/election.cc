#include "aggregation/election.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

namespace kedge::aggregation {

namespace {

// Weights of load and distance, as shifts: kept bytes count 2^kKeptShift, the rest 2^weight.
constexpr int kKeptShift = 10;
constexpr int kWeightMax = 20;
constexpr int kUnitBits = 30;  // of a leader's capacity in the units of the objective: sums stay below 2^62

// Fewer leaders and objects where there are fewer stripes, and still one divides the other.
Counts CountsFor(const Counts& most, uint64_t stripes, uint32_t nodes) {
  const auto leaders = static_cast<uint32_t>(std::min<uint64_t>({most.leaders, nodes, stripes}));
  if (most.objects >= most.leaders) {
    const uint64_t of_leader = std::min<uint64_t>(most.objects / most.leaders, stripes / leaders);
    return {leaders, static_cast<uint32_t>(leaders * of_leader)};
  }
  if (leaders <= most.objects) return {leaders, leaders};
  return {leaders - leaders % most.objects, most.objects};
}

// The bytes of leader `position`'s stripes. Falls with the position.
uint64_t CapacityAt(uint64_t bytes, uint64_t stripe_bytes, uint32_t leaders, uint32_t position) {
  const uint64_t stripes = (bytes + stripe_bytes - 1) / stripe_bytes;
  const uint64_t own = stripes / leaders + (position < stripes % leaders ? 1 : 0);
  const bool has_last = (stripes - 1) % leaders == position;
  return own * stripe_bytes - (has_last ? stripes * stripe_bytes - bytes : 0);
}

class Election {
 public:
  Election(const Line& line, const Summary& root, const ElectionOptions& options, uint32_t leaders)
      : line_(line), root_(root), stripe_bytes_(options.stripe_bytes), leaders_(leaders) {
    capacity_ = CapacityAt(root.bytes, stripe_bytes_, leaders, 0);
    shift_ = std::max(0, static_cast<int>(std::bit_width(capacity_)) - kUnitBits);
  }

  std::vector<Leader> Best(uint32_t slack_percent) const {
    std::vector<Candidate> chosen = Largest();
    std::vector<Leader> best = WithStripes(chosen);
    const uint64_t least = Moved(best);
    const uint64_t allowed = least + least / 100 * slack_percent + least % 100 * slack_percent / 100;
    for (int weight = kWeightMax; weight >= 0; --weight) {
      std::vector<Leader> other = WithStripes(Weighted(weight));
      if (Moved(other) <= allowed) return other;
    }
    return best;
  }

 private:
  struct Next {
    int64_t gain = 0;
    uint32_t node = 0;
    uint32_t district = 0;
    bool operator<(const Next& other) const { return gain != other.gain ? gain < other.gain : node > other.node; }
  };

  std::vector<Candidate> Largest() const {
    std::vector<Candidate> all = root_.candidates;
    std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(b.bytes, a.load, a.node) < std::tuple(a.bytes, b.load, b.node);
    });
    all.resize(leaders_);
    return all;
  }

  int64_t Units(uint64_t bytes) const { return static_cast<int64_t>(bytes >> shift_); }

  // Without the part that depends on how many leaders the district has.
  int64_t Value(const Candidate& candidate, int weight) const {
    const int64_t kept = Units(std::min(candidate.bytes, capacity_));
    const int64_t busy = Units(capacity_) * candidate.load / 256;
    return kept * (int64_t{1} << kKeptShift) - busy * (int64_t{1} << weight);
  }

  // Bytes that one more leader keeps in a district that has `count`.
  int64_t Near(uint32_t district, uint64_t count, int weight) const {
    const uint64_t taken = count * capacity_;
    const uint64_t bytes = root_.district_bytes[district];
    return taken >= bytes ? 0 : Units(std::min(capacity_, bytes - taken)) * (int64_t{1} << weight);
  }

  std::vector<Candidate> Weighted(int weight) const {
    std::vector<std::vector<Candidate>> of_district(line_.district_count());
    for (const Candidate& candidate : root_.candidates) of_district[line_.DistrictOf(candidate.node)].push_back(candidate);
    std::priority_queue<Next> queue;
    const auto offer = [&](uint32_t district, size_t count) {
      if (count == of_district[district].size()) return;
      const Candidate& candidate = of_district[district][count];
      queue.push({Value(candidate, weight) + Near(district, count, weight), candidate.node, district});
    };
    for (uint32_t i = 0; i < of_district.size(); ++i) {
      std::sort(of_district[i].begin(), of_district[i].end(), [&](const Candidate& a, const Candidate& b) {
        return std::tuple(Value(b, weight), a.node) < std::tuple(Value(a, weight), b.node);
      });
      offer(i, 0);
    }
    std::vector<size_t> taken(of_district.size());
    std::vector<Candidate> chosen;
    while (chosen.size() < leaders_) {
      const uint32_t district = queue.top().district;
      queue.pop();
      chosen.push_back(of_district[district][taken[district]++]);
      offer(district, taken[district]);
    }
    return chosen;
  }

  // The larger, the more stripes: so most is kept.
  std::vector<Leader> WithStripes(std::vector<Candidate> chosen) const {
    std::sort(chosen.begin(), chosen.end(),
              [](const Candidate& a, const Candidate& b) { return std::tuple(b.bytes, a.node) < std::tuple(a.bytes, b.node); });
    std::vector<Leader> leaders;
    for (const Candidate& candidate : chosen) {
      const auto position = static_cast<uint32_t>(leaders.size());
      leaders.push_back({candidate.node, candidate.bytes, CapacityAt(root_.bytes, stripe_bytes_, leaders_, position)});
    }
    return leaders;
  }

  uint64_t Moved(const std::vector<Leader>& leaders) const {
    uint64_t moved = root_.bytes;
    for (const Leader& leader : leaders) moved -= leader.kept();
    return moved;
  }

  const Line& line_;
  const Summary& root_;
  const uint64_t stripe_bytes_;
  const uint32_t leaders_;
  uint64_t capacity_ = 0;  // the greatest
  int shift_ = 0;
};

void FillDistricts(const Line& line, const Summary& root, Roles* roles) {
  for (uint32_t i = 0; i < roles->leaders.size(); ++i) roles->by_node.push_back({roles->leaders[i].node, i, 0, 0});
  std::sort(roles->by_node.begin(), roles->by_node.end(),
            [](const Roles::AlongLine& a, const Roles::AlongLine& b) { return a.node < b.node; });
  uint64_t before = 0, surplus_left = 0, room_left = 0;
  uint32_t at = 0;
  for (uint32_t i = 0; i < line.district_count(); ++i) {
    Roles::District& district = roles->districts.emplace_back();
    district.before = before;
    district.surplus_left = surplus_left;
    district.room_left = room_left;
    district.leaders_before = at;
    uint64_t kept = 0;
    for (; at < roles->by_node.size() && roles->by_node[at].node < line.districts[i + 1]; ++at) {
      Roles::AlongLine& entry = roles->by_node[at];
      const Leader& leader = roles->leaders[entry.position];
      entry.room_before = district.room;
      entry.kept_before = kept;
      kept += leader.kept();
      district.room += leader.capacity - leader.kept();
    }
    district.surplus = root.district_bytes[i] - kept;
    before += root.district_bytes[i];
    surplus_left += district.surplus > district.room ? district.surplus - district.room : 0;
    room_left += district.room > district.surplus ? district.room - district.surplus : 0;
  }
  KEDGE_CHECK(surplus_left == room_left);
  roles->far_bytes = surplus_left;
}

}  // namespace

uint64_t Roles::moved_bytes() const {
  uint64_t moved = bytes;
  for (const Leader& leader : leaders) moved -= leader.kept();
  return moved;
}

Roles Elect(const Line& line, const Summary& root, const ElectionOptions& options) {
  KEDGE_CHECK(options.stripe_bytes > 0 && options.counts.leaders > 0 && options.counts.objects > 0);
  Roles roles;
  roles.bytes = root.bytes;
  roles.stripe_bytes = options.stripe_bytes;
  roles.stripes = (root.bytes + options.stripe_bytes - 1) / options.stripe_bytes;
  if (root.bytes > 0) {
    const Counts counts = CountsFor(options.counts, roles.stripes, line.size());
    roles.objects = counts.objects;
    roles.leaders = Election(line, root, options, counts.leaders).Best(options.slack_percent);
  }
  FillDistricts(line, root, &roles);
  return roles;
}

}  // namespace kedge::aggregation
