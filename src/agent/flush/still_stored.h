// Whether what counts as stored is in the store still. One that failed over to an older copy of itself has the same id, and has
// not got what was published since.
//
// It is looked up again when the store is found in another folder than before (Catalog::places), and before the copies here are
// deleted because it has them. What is missing there counts as stored no more, and is sent again from here. What the store has
// that is not from here is heard of, too: which versions the job has abandoned, and gone on from, when this node had left it. All
// on the event loop's thread; the store is asked on workers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/tables/job.h"
#include "store/still_there.h"

namespace kedge {

class AgentCore;
class ImageFlusher;
class ImageTable;
class LocalRetention;
class Publisher;

class StillStored {
 public:
  StillStored(AgentCore& core, ImageFlusher& flush, ImageTable& images, Publisher& publisher, LocalRetention& retention)
      : core_(core), flush_(flush), images_(images), publisher_(publisher), retention_(retention) {}

  // Once a second or so: jobs whose store has come to lie elsewhere.
  void Tick();
  // It may not have what counts as stored: it is asked at the next tick.
  void Doubt(const Job& job) { looks_[job.key()].is_doubted = true; }
  // Of all jobs, waiting for the answers: ok when the store has all versions that count as being there. What it has not got is on
  // its way there when this returns, if it is whole here.
  Status ConfirmAll(Duration patience);

 private:
  struct Look {
    bool is_under_way = false;
    bool is_doubted = false;
    uint32_t places = 0;  // of the store, when everything was looked up last
  };
  struct Question {
    std::string job;
    std::set<std::string> names;
    std::vector<Seen> versions, parts;  // what counts as stored: complete, and not
    uint32_t places = 0;
  };
  struct Answer {
    uint32_t places = 0;
    Result<std::vector<Seen>> missing{std::vector<Seen>()};
    std::vector<RestoredRecord> restored;
    std::vector<Generation> newest;  // complete, of each name
  };
  static Answer Ask(StoreContext& store, const Question& question);
  Question QuestionOf(const Job& job) const;
  void OnAnswer(Job& job, const Answer& answer);
  void SendAgain(Job& job, const Seen& missing);

  AgentCore& core_;
  ImageFlusher& flush_;
  ImageTable& images_;
  Publisher& publisher_;
  LocalRetention& retention_;
  std::map<JobKey, Look> looks_;
};

}  // namespace kedge
