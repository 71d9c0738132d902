#include "fmi/objects.h"

#include <gtest/gtest.h>

#include <memory>

#include "fmi/testing/rank_threads.h"

namespace kedge::fmi {
namespace {

using testing::NewBoard;

class OfOneRank : public ::testing::Test {
 protected:
  OfOneRank() : board(NewBoard(2)), messenger(&board, 0), objects(&messenger) { messenger.Adopt(1); }
  static int AddColumn(Objects* to) {
    const TypeMap column = *TypeMap::Vector(3, 1, 64, TypeMap::Basic(8));
    return to->types.Add({std::make_shared<TypeMap>(column), /*is_committed=*/true});
  }

  Board board;
  Messenger messenger;
  Objects objects;
};

TEST_F(OfOneRank, GroupsAndTypesComeBackByTheirHandles) {
  const int group = objects.groups.Add(std::make_shared<Group>(Group({1, 0})));
  const int type = AddColumn(&objects);
  const Buffer encoded = objects.Encode();
  Objects successor(&messenger);
  ASSERT_TRUE(successor.Restore(encoded).ok());
  EXPECT_EQ(**successor.groups.Find(group), Group({1, 0}));
  EXPECT_EQ(*successor.types.Find(type)->map, *objects.types.Find(type)->map);
  EXPECT_TRUE(successor.types.Find(type)->is_committed);
}

TEST_F(OfOneRank, WhatARankHasMadeSinceStaysItsOwn) {
  const Buffer encoded = objects.Encode();
  const int type = AddColumn(&objects);
  ASSERT_TRUE(objects.Restore(encoded).ok());
  EXPECT_NE(objects.types.Find(type), nullptr);
  EXPECT_EQ(AddColumn(&objects), type + 1);
}

TEST_F(OfOneRank, WhatIsOfAProcessDoesNotComeBackAndItsNumberStandsForNothingElse) {
  const int operation = objects.operations.Add({});
  const int request = objects.requests.Add({});
  Objects successor(&messenger);
  ASSERT_TRUE(successor.Restore(objects.Encode()).ok());
  EXPECT_EQ(successor.operations.Find(operation), nullptr);
  EXPECT_EQ(successor.operations.Add({}), operation + 1);
  EXPECT_EQ(successor.requests.Find(request), nullptr);
  EXPECT_EQ(successor.requests.Add({}), request + 1);
}

TEST_F(OfOneRank, ACheckpointThatSaysNothingOfThemIsRead) {
  const int group = objects.groups.Add(std::make_shared<Group>(Group({1, 0})));
  Buffer encoded = objects.Encode();
  encoded.resize(encoded.size() - 2);
  Objects successor(&messenger);
  ASSERT_TRUE(successor.Restore(encoded).ok());
  EXPECT_NE(successor.groups.Find(group), nullptr);
}

TEST_F(OfOneRank, WhatIsCutShortIsNotTaken) {
  objects.groups.Add(std::make_shared<Group>(Group({1})));
  AddColumn(&objects);
  const Buffer encoded = objects.Encode();
  // The last two bytes are of operations and requests.
  for (size_t bytes = 0; bytes + 2 < encoded.size(); ++bytes) {
    Objects successor(&messenger);
    EXPECT_FALSE(successor.Restore({encoded.data(), bytes}).ok()) << bytes;
  }
}

}  // namespace
}  // namespace kedge::fmi
