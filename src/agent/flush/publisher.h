// Publication: written images become a part, parts a version (store/publish.h), and old versions go (store/retention.h).
//
// The images of a node go together where they can: one folder sync and one part record for all of them. An image does not
// wait long for one that is not there, for its rank may have published on its own (without an agent) or be dead.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/flush/publication.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class Cargo;
class Flush;
class ImageTable;
class LocalRetention;
class Throughput;

class Publisher {
 public:
  Publisher(AgentCore& core, Cargo& cargo, Flush& flush, ImageTable& images, LocalRetention& retention, Throughput& throughput);

  void OnWritten(Image& image);
  // Publishes what is written if nothing more is to be waited for.
  void Consider(Version& version);
  // The same, whether images of it lie here or only those of other nodes go there from here.
  void Consider(const Generation& generation);
  // Another node has written the image and published it. `is_complete`: the version is complete in the store.
  void OnStoredElsewhere(Image& image, bool is_complete);
  // Another node has completed the version.
  void OnCompletedElsewhere(const Generation& generation);
  void OnVersionGone(Version& version);

  // Finishes the version if all its parts are there by now: nobody says so of each.
  void Probe(Version& version);
  // Looks a generation up that this node knows nothing of; `done` on the loop: kBuffer or kStore when it is complete there.
  void Lookup(const Generation& generation, std::function<void(std::optional<Level>)> done);
  // All ranks' images are safe on the nodes: where this node speaks for the job, the store is told so, once for each name and
  // attempt (store/reached.h), and what earlier attempts have left there incomplete goes. Nobody waits for it.
  void NoteReached(const Version& version);
  void Retain(Job& job, const std::string& name);
  // What a dead predecessor began in the store is removed, then `done`.
  void RemoveLeftovers(Job& job, uint32_t attempt, std::function<void()> done);
  // Whether ranks of other nodes have taken another version instead (Version::failure), as far as the store can tell by now: for
  // who ends, where the nodes do not hear each other. `done` comes later.
  void LookForDisagreement(const Version& version, std::function<void()> done);

 private:
  struct Outcome;
  void PublishNow(const Generation& generation);
  // Those of them that lie in another node's object.
  void HandIn(Version& version, std::vector<uint64_t> ids, std::vector<WrittenImage> images);
  void OnHandedIn(const Generation& generation, const std::vector<uint64_t>& ids, const FinishedShare& share);
  // Whether what is written of it waits for blocks that other nodes write. Then PublishNow comes again, after a while in any
  // case.
  bool AwaitsCommon(Version& version);
  void OnPublished(const Generation& generation, Outcome outcome);
  void OnPublishedHere(Version& published_version, const Outcome& outcome);
  void SetStored(Image& image, bool is_saved_later);
  void Settle(Image& image);
  void RemoveThrough(const Version& version);
  void CommitAgain(const Generation& generation, Outcome outcome);
  // What is written of it is published when the store is there again.
  void AwaitStore(Version& version, const Status& why);
  // For a successor: where its images are by now.
  void SaveFiles(const Version& version);
  // It was not finished by what is published here.
  void FindComplete(Version& version);
  void OnComplete(Version& version);

  AgentCore& core_;
  Cargo& cargo_;
  Flush& flush_;
  ImageTable& images_;
  LocalRetention& retention_;
  Throughput& throughput_;
};

}  // namespace kedge
