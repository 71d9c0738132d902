// Shares of an object: runs of it that no two nodes have in common, between borders, and what each of them has written.
#include "agent/tables/object_under_way.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "os/testing/temporary_folder.h"
#include "store/keys.h"
#include "store/posix/posix_store.h"

namespace kedge {
namespace {

class NodesObject : public ::testing::Test {
 protected:
  NodesObject() {
    EXPECT_TRUE(object_.Share(20000));
    EXPECT_TRUE(object_.Begin(catalog_, 4096).ok());
  }
  // As over a network: it may fail, and counts.
  class Lender : public ShareLender {
   public:
    explicit Lender(NodesObject& test) : test_(test) {}
    Result<LentShare> Lend(uint64_t bytes) override {
      test_.asked_.push_back(bytes);
      return test_.object_.Lend(bytes);
    }

   private:
    NodesObject& test_;
  };
  std::unique_ptr<ObjectUnderWay> Borrow(uint64_t bytes) {
    return std::make_unique<ObjectUnderWay>(generation_, std::make_unique<Lender>(*this), bytes);
  }
  // All of that byte, where there is room: where.
  uint64_t Write(ObjectUnderWay& object, size_t bytes, char content) {
    const uint64_t room = object.TakeRoom(bytes).value();
    EXPECT_TRUE(object.WriteAt(room, AsBytes(std::string(bytes, content))).ok());
    return room;
  }
  void ExpectAt(uint64_t offset, size_t bytes, char content) {
    Buffer read(bytes);
    const auto reader = store_->OpenObject(keys::GenerationFolder(generation_) + "/" + object_.name());
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    ASSERT_TRUE((*reader)->ReadAt(offset, read).ok());
    EXPECT_EQ(AsText(read), std::string(bytes, content)) << offset;
  }
  void Publish() {
    object_.Close();
    EXPECT_TRUE(object_.FinishShare().ok());
    ASSERT_TRUE(object_.writer()->Commit().ok());
    object_.MarkPublished();
  }

  os::testing::TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = MakePosixStore(os::SystemFileSystem(), {folder_ / "store", 0600, 0700, false});
  const Catalog catalog_ = Catalog::OpenOrCreate(*store_, {"n1", 1, "agent"}).value();
  const Generation generation_{catalog_.id(), "job", "p", 1, 1, 1};
  ObjectUnderWay object_{generation_, keys::NodeObject()};
  std::vector<uint64_t> asked_;
};

TEST_F(NodesObject, HasAShareForEachBehindTheOthers) {
  const auto one = Borrow(10000), two = Borrow(5000);
  ASSERT_TRUE(two->Begin(catalog_, 0).ok());
  ASSERT_TRUE(one->Begin(catalog_, 0).ok());
  EXPECT_EQ(one->name(), object_.name());
  const uint64_t of_two = Write(*two, 5000, '2'), of_one = Write(*one, 6000, '1'), more_of_one = Write(*one, 4000, 'x');
  const uint64_t own = Write(object_, 9000, '0'), own_more = Write(object_, 20000, 'y');
  EXPECT_EQ(asked_, (std::vector<uint64_t>{5000, 10000}));
  EXPECT_EQ(of_two, 0u);
  EXPECT_EQ(of_one, 8192u);
  EXPECT_EQ(more_of_one, of_one + 8192);
  EXPECT_EQ(own, 8192u + 12288);
  EXPECT_GE(own_more, own + 9000);
  EXPECT_EQ(one->written_bytes(), 10000u);
  for (ObjectUnderWay* const borrowed : {one.get(), two.get()}) {
    borrowed->Close();
    EXPECT_TRUE(borrowed->FinishShare().ok());
    EXPECT_FALSE(borrowed->IsUsable());
  }
  Publish();
  ExpectAt(of_two, 5000, '2');
  ExpectAt(of_one, 6000, '1');
  ExpectAt(more_of_one, 4000, 'x');
  ExpectAt(own, 9000, '0');
  ExpectAt(own_more, 20000, 'y');
}

TEST_F(NodesObject, LendsMoreToWhoWritesMoreThanItHadPlanned) {
  const auto one = Borrow(4096), two = Borrow(4096);
  ASSERT_TRUE(one->Begin(catalog_, 0).ok() && two->Begin(catalog_, 0).ok());
  const uint64_t first = Write(*one, 4096, 'a'), second = Write(*one, 100, 'b'), other = Write(*two, 4096, 'c');
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(other, 4096u);
  EXPECT_EQ(second, 8192u);
  EXPECT_TRUE(one->FinishShare().ok() && two->FinishShare().ok());
  Publish();
  ExpectAt(second, 100, 'b');
  ExpectAt(other, 4096, 'c');
}

TEST_F(NodesObject, ThreadsOfSeveralNodesGetNoRoomTwice) {
  constexpr size_t kEach = 50;
  std::vector<std::unique_ptr<ObjectUnderWay>> nodes;
  std::vector<std::vector<uint64_t>> rooms(8);
  std::mutex mutex;
  class Locked : public ShareLender {
   public:
    Locked(ObjectUnderWay& object, std::mutex& mutex) : object_(object), mutex_(mutex) {}
    Result<LentShare> Lend(uint64_t bytes) override {
      const std::lock_guard lock(mutex_);
      return object_.Lend(bytes);
    }

   private:
    ObjectUnderWay& object_;
    std::mutex& mutex_;
  };
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(std::make_unique<ObjectUnderWay>(generation_, std::make_unique<Locked>(object_, mutex), 10000));
  }
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < rooms.size(); ++thread) {
    threads.emplace_back([&, thread] {
      ObjectUnderWay& object = *nodes[thread / 2];
      EXPECT_TRUE(object.Begin(catalog_, 0).ok());
      for (size_t i = 0; i < kEach; ++i) rooms[thread].push_back(object.TakeRoom(1000).value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (const auto& of_thread : rooms) all.insert(of_thread.begin(), of_thread.end());
  EXPECT_EQ(all.size(), rooms.size() * kEach);
  for (const uint64_t room : all) EXPECT_EQ(room % 4096, 0u);
}

TEST_F(NodesObject, IsLentNoMoreOnceItIsClosed) {
  const auto one = Borrow(4096), late = Borrow(4096);
  ASSERT_TRUE(one->Begin(catalog_, 0).ok());
  Write(*one, 4096, 'a');
  object_.Close();
  EXPECT_EQ(late->Begin(catalog_, 0).code(), Code::kFailedPrecondition);
  EXPECT_FALSE(late->IsUsable());
  EXPECT_FALSE(one->TakeRoom(1).ok()) << "its share is used up";
  EXPECT_TRUE(one->has_failed());
  EXPECT_FALSE(one->FinishShare().ok());
}

TEST_F(NodesObject, ThatWasBegunForOneNodeIsNotLent) {
  ObjectUnderWay own(generation_, keys::NodeObject());
  ASSERT_TRUE(own.Begin(catalog_, 4096).ok());
  EXPECT_FALSE(own.Share(4096));
  EXPECT_EQ(own.Lend(1).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(own.TakeRoom(10).value(), 0u);
  EXPECT_EQ(own.TakeRoom(10).value(), 4096u);
}

TEST_F(NodesObject, WhoGivesItsShareUpWritesNothingMore) {
  const auto one = Borrow(8192);
  ASSERT_TRUE(one->Begin(catalog_, 0).ok());
  const uint64_t room = Write(*one, 4096, 'a');
  one->GiveUp(Status(Code::kFailedPrecondition, "the others go on without it"));
  EXPECT_FALSE(one->IsUsable());
  EXPECT_EQ(one->WriteAt(room, AsBytes("b")).code(), Code::kFailedPrecondition);
  EXPECT_FALSE(one->FinishShare().ok());
}

// What is left of it is a temporary of the one that began it.
TEST_F(NodesObject, ABorrowerRemovesNothing) {
  {
    const auto one = Borrow(4096);
    ASSERT_TRUE(one->Begin(catalog_, 0).ok());
    Write(*one, 4096, 'a');
  }
  EXPECT_EQ(store_->ListTemporaries("", {"n1", 0, "test"}).value().size(), 1u);
  Publish();
  ExpectAt(0, 4096, 'a');
}

}  // namespace
}  // namespace kedge
