#include "striped/streams.h"

#include <utility>

namespace kedge::bench {

Streams::Streams(const Machine& machine, std::vector<uint32_t> nodes_of, uint32_t nodes, uint32_t locks, uint64_t seed,
                 RequestSource& source)
    : machine_(machine),
      source_(source),
      random_(seed),
      streams_(nodes_of.size()),
      locks_(locks),
      targets_(machine.targets),
      nodes_(nodes),
      in_(nodes),
      out_(nodes) {
  for (size_t i = 0; i < nodes_of.size(); ++i) streams_[i].node = nodes_of[i];
}

double Streams::Run(double start) {
  end_ = start;
  for (uint32_t i = 0; i < streams_.size(); ++i) {
    const double opened = metadata_.Serve(start, machine_.metadata_seconds);
    Fetch(start, i);
    events_.Add(std::max(opened, streams_[i].next_ready), i, Step::kBegin);
  }
  while (!events_.empty()) {
    const auto event = events_.Take();
    Do(event.second, event.actor, event.step);
  }
  return end_;
}

void Streams::Fetch(double now, uint32_t stream) {
  Stream& state = streams_[stream];
  state.next = {};
  state.has_next = source_.Next(stream, &state.next);
  state.next_ready = now;
  for (const Request::Pull& pull : state.next.pulls) {
    Server& out = out_[pull.node];
    Server& in = in_[state.node];
    const double seconds = static_cast<double>(pull.bytes) / machine_.network_bytes_per_second;
    const double begin = std::max({now, out.free(), in.free()});
    out.Serve(begin, seconds);
    state.next_ready = std::max(state.next_ready, in.Serve(begin, seconds) + machine_.hop_seconds);
  }
}

void Streams::Granted(double now, uint32_t stream, bool handed_over) {
  hand_overs_ += handed_over ? 1 : 0;
  events_.Add(now + (handed_over ? machine_.hand_over_seconds : 0), stream, Step::kCopy);
}

void Streams::Do(double now, uint32_t stream, Step step) {
  Stream& state = streams_[stream];
  const auto bytes = static_cast<double>(state.now.bytes());
  switch (step) {
    case Step::kBegin:
      if (!state.has_next) return;
      state.now = std::move(state.next);
      Fetch(now, stream);
      events_.Add(now + static_cast<double>(state.now.own_bytes) / machine_.read_bytes_per_second, stream,
                  state.now.lock == kNoLock ? Step::kCopy : Step::kLock);
      return;
    case Step::kLock: {
      bool handed_over = false;
      if (locks_[state.now.lock].Acquire(stream, state.node, &handed_over)) Granted(now, stream, handed_over);
      return;
    }
    case Step::kCopy: {
      const double of_node = nodes_[state.node].Serve(now, bytes / machine_.node_bytes_per_second);
      events_.Add(std::max(of_node, now + bytes / machine_.stream_bytes_per_second), stream, Step::kServe);
      return;
    }
    case Step::kServe: {
      const double noise = 1 + machine_.service_noise * (2 * random_.Unit() - 1);
      const double seconds = noise * bytes / machine_.target_bytes_per_second();
      events_.Add(targets_[state.now.target].Serve(now, seconds), stream, Step::kEnd);
      return;
    }
    case Step::kEnd: {
      end_ = std::max(end_, now);
      uint32_t next = 0;
      bool handed_over = false;
      if (state.now.lock != kNoLock && locks_[state.now.lock].Release(&next, &handed_over)) Granted(now, next, handed_over);
      events_.Add(std::max(now, state.next_ready), stream, Step::kBegin);
      return;
    }
  }
}

}  // namespace kedge::bench
