// The agent of one node and user: wires the rooms together, runs the event loop, and is seen by none of them.
//
// Each module is handed the modules that it uses, by reference; some use each other, so that a constructor does nothing yet but
// register what the module answers (tables/client_requests.h, peers/peer_service.h).
// One thread, the loop's, runs all modules and takes no lock; Workers block on devices and post their results back. The
// state can be rebuilt at any instruction from the slot tables, the mailboxes, the local records and the store
// (recovery.h), so being killed is an ordinary way to end.
//
//   server ─ messages ─► sessions ─ mailbox entries ─► assignment (places), images (captures)
//   images ─ captured pieces ─► flush ─ written images ─► publish ─ levels ─► images (retention), waiters
#pragma once

#include <memory>
#include <string>

#include "agent/bring/bringer.h"
#include "agent/bring/inventories.h"
#include "agent/bring/rebuilder.h"
#include "agent/bring/shared_reads.h"
#include "agent/bring/windows.h"
#include "agent/door/server.h"
#include "agent/door/sessions.h"
#include "agent/door/waiters.h"
#include "agent/flush/attempt_watch.h"
#include "agent/flush/drain_watch.h"
#include "agent/flush/flush.h"
#include "agent/flush/publisher.h"
#include "agent/flush/routed_publisher.h"
#include "agent/flush/still_stored.h"
#include "agent/flush/straight_parts.h"
#include "agent/gather/carrier.h"
#include "agent/gather/job_blocks.h"
#include "agent/gather/shipper.h"
#include "agent/gather/stagers.h"
#include "agent/gather/staging_post.h"
#include "agent/images/arrivals.h"
#include "agent/images/found_images.h"
#include "agent/images/gap_filler.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/images/open_images.h"
#include "agent/images/passing_chunks.h"
#include "agent/images/pending_images.h"
#include "agent/peers/measure_peers.h"
#include "agent/peers/peers.h"
#include "agent/peers/read_pauses.h"
#include "agent/protect/done_groups.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/layouts.h"
#include "agent/protect/measure_member.h"
#include "agent/protect/node_level.h"
#include "agent/protect/protect.h"
#include "agent/protect/protect_again.h"
#include "agent/protect/set_exchange.h"
#include "agent/protect/set_maker.h"
#include "agent/protect/set_proofs.h"
#include "agent/protect/stream_server.h"
#include "agent/schedule/completions.h"
#include "agent/schedule/halts.h"
#include "agent/schedule/local_level.h"
#include "agent/schedule/takings.h"
#include "agent/schedule/tuning.h"
#include "agent/schedule/turns.h"
#include "agent/space/assignment.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/own_slots.h"
#include "agent/space/redundancy_room.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "os/events/event_fd.h"
#include "os/sockets/text_server.h"

namespace kedge {

class Agent {
 public:
  // kBusy: another agent serves this node; that is no failure. Takes over what a predecessor left.
  static Result<std::unique_ptr<Agent>> Start(AgentOptions options);
  ~Agent();

  // Until it has been idle for agent.idle_timeout, is told to leave, or RequestStop. Returns what to say about it. An error: it
  // cannot do what it was started for, and leaves its state for a successor.
  Result<std::string> Run();
  // Only writes a descriptor: may be called from a signal handler. The agent leaves its state for a successor.
  void RequestStop() { stop_.Signal(); }

  // ---- For the daemon's own room, and tests ----
  AgentCore& core() { return *core_; }
  Assignment& assignment() { return assignment_; }
  Carrier& carrier() { return carrier_; }
  DoneGroups& done_groups() { return done_groups_; }
  Flush& flush() { return flush_; }
  Halts& halts() { return halts_; }
  HeldSets& held_sets() { return held_sets_; }
  FoundImages& found_images() { return found_images_; }
  ImageTable& images() { return images_; }
  Layouts& layouts() { return layouts_; }
  MemoryLedger& memory() { return memory_; }
  NodeLevel& node_level() { return node_level_; }
  OwnSlots& own_slots() { return own_slots_; }
  PendingImages& pending() { return pending_; }
  Peers& peers() { return peers_; }
  Protect& protect() { return protect_; }
  ProtectAgain& protect_again() { return protect_again_; }
  Publisher& publisher() { return publisher_; }
  RedundancyRoom& redundancy_room() { return redundancy_room_; }
  LocalRetention& retention() { return retention_; }
  RoutedPublisher& routed_publisher() { return routed_publisher_; }
  Server& server() { return server_; }
  SetExchange& set_exchange() { return set_exchange_; }
  Shipper& shipper() { return shipper_; }
  Sessions& sessions() { return sessions_; }
  Throughput& throughput() { return throughput_; }
  Tiers& tiers() { return tiers_; }
  Tuning& tuning() { return tuning_; }
  Turns& turns() { return turns_; }
  Waiters& waiters() { return waiters_; }

 private:
  explicit Agent(std::unique_ptr<AgentCore> core);
  Status Prepare();
  // Who hears of what (AgentEvents).
  void Subscribe();
  std::string RunLoop();
  void Housekeep();
  // Whether the run folder and the tiers are where they were; a pool that is gone is made anew.
  void CheckPlaces();
  void CheckReachable();
  // It cannot be reached, and all that it holds has long waited for stores that are not there.
  bool WaitsInVain() const;
  void OnTierLost(TierUnit* unit);
  bool IsIdle();
  // At once, or when nothing is pending any more that this node must see to.
  void Leave(bool when_drained);
  // Removes everything that is of no more use; says what stays and why. `stored`: whether the stores have what counts as stored.
  std::string CleanUp(const Status& stored);

  const std::unique_ptr<AgentCore> core_;
  Throughput throughput_{*core_, tiers_};
  MemoryLedger memory_{*core_, assignment_, retention_, own_slots_, redundancy_room_, tiers_};
  Tiers tiers_{*core_, assignment_, flush_, retention_, memory_, throughput_};
  OwnSlots own_slots_{assignment_, memory_};
  RedundancyRoom redundancy_room_{*core_, memory_, own_slots_, tiers_};
  Assignment assignment_{*core_, flush_, retention_, memory_, redundancy_room_, throughput_, tiers_};
  ImageTable images_{*core_, assignment_, flush_};
  GapFiller gaps_{*core_, images_};
  PassingChunks passing_{*core_, images_, throughput_};
  LocalRetention retention_{*core_, assignment_, flush_, gaps_, images_, passing_};
  Arrivals arrivals_{*core_, flush_, gaps_, images_, passing_, retention_, throughput_};
  FoundImages found_images_{*core_, flush_, gaps_, images_, tiers_};
  OpenImages open_images_{*core_, images_};
  PendingImages pending_{*core_, images_};
  Flush flush_{*core_, assignment_, attempt_watch_, images_, pending_, retention_, throughput_, tiers_};
  Publisher publisher_{*core_, carrier_, flush_, images_, retention_, throughput_};
  RoutedPublisher routed_publisher_{*core_, images_, retention_};
  AttemptWatch attempt_watch_{*core_, images_, retention_};
  StillStored still_stored_{*core_, flush_, images_, publisher_, retention_};
  DrainWatch drain_watch_{*core_, retention_, still_stored_};
  StraightParts straight_parts_{*core_, flush_, retention_};
  Peers peers_{*core_};
  ReadPauses read_pauses_{*core_, peers_};
  MeasurePeers measure_peers_{*core_, peers_};
  LocalLevel local_level_{*core_, images_, peers_, retention_};
  Completions completions_{*core_, peers_, publisher_};
  Tuning tuning_{*core_};
  Takings takings_{*core_, peers_};
  Turns turns_{*core_, flush_, images_, peers_, retention_, tuning_};
  Halts halts_{*core_};
  Layouts layouts_{*core_, peers_};
  HeldSets held_sets_{*core_, own_slots_, tiers_};
  StreamServer stream_server_{*core_, held_sets_, peers_, read_pauses_};
  NodeLevel node_level_{*core_, held_sets_, images_, retention_};
  MeasureMember measure_member_{*core_, node_level_};
  SetExchange set_exchange_{*core_, held_sets_, node_level_, peers_};
  SetProofs set_proofs_{*core_, node_level_, peers_};
  SetMaker set_maker_{*core_, assignment_, held_sets_, node_level_, peers_, redundancy_room_, set_proofs_};
  DoneGroups done_groups_{*core_, node_level_, peers_};
  Protect protect_{*core_, done_groups_, measure_member_, node_level_, set_exchange_, set_maker_};
  ProtectAgain protect_again_{*core_, node_level_, protect_};
  Inventories inventories_{*core_, peers_};
  Bringer bringer_{*core_, assignment_, found_images_, images_, inventories_, memory_, own_slots_, peers_, tiers_};
  Rebuilder rebuilder_{*core_, bringer_, flush_, inventories_};
  Windows windows_{*core_, bringer_, memory_};
  SharedReads shared_reads_{*core_};
  Carrier carrier_{*core_, bringer_, flush_, peers_, publisher_};
  Stagers stagers_{*core_, peers_};
  StagingPost staging_post_{*core_, peers_};
  JobBlocks job_blocks_{*core_, flush_, images_, retention_};
  Shipper shipper_{*core_, assignment_, carrier_, flush_, job_blocks_, peers_, publisher_, stagers_};
  Sessions sessions_{*core_, arrivals_,  assignment_, carrier_,    found_images_, layouts_, open_images_,
                     peers_, retention_, server_,     throughput_, tiers_,        tuning_};
  Waiters waiters_{*core_, attempt_watch_, flush_, local_level_, node_level_, pending_, publisher_};
  Server server_{*core_, peers_, sessions_, waiters_};
  std::unique_ptr<os::TextServer> metrics_;
  os::EventFd stop_;
  bool leave_now_ = false;
  Status failure_;  // why it cannot do what it was started for
  bool leave_when_drained_ = false;
  bool unreachable_ = false;  // the run folder was removed, or is another agent's by now
  int64_t hopeful_ns_ = 0;    // when it was last reachable, or had something pending whose store was there
};

}  // namespace kedge
