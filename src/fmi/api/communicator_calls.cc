// The C ABI of libkedge-fmi (kedge/fmi.h): communicators and groups.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fmi/api/checks.h"
#include "fmi/api/making.h"
#include "fmi/communicators.h"
#include "fmi/handles/group.h"
#include "kedge/fmi.h"

namespace kedge::fmi {
namespace {

int SetGroup(FMI_Group* handle, Group group) {
  auto& groups = TheJob()->objects().groups;
  *handle = groups.Take();
  if (group.size() > 0) {
    groups.Put(*handle, std::make_shared<Group>(std::move(group)));
  } else {
    *handle = FMI_GROUP_EMPTY;
  }
  return FMI_SUCCESS;
}

// Of a group that a failure has kept from being made.
int SetUnknownGroup(FMI_Group* handle) {
  *handle = TheJob()->objects().groups.Take();
  return AnswerFailed();
}

std::vector<int> CheckedMembers(const char* call, int count, const int* members) {
  CheckCount(call, count);
  if (count > 0) CheckNotNull(call, members, "the list of ranks");
  return count > 0 ? std::vector<int>(members, members + count) : std::vector<int>();
}

int SetChecked(const char* call, FMI_Group* handle, Result<Group> group) {
  if (!group.ok()) Die(call, group.status().message());
  return SetGroup(handle, std::move(*group));
}

std::vector<uint32_t> Those(const Group& of, const Group& other, bool are_in_other) {
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : of.ranks()) {
    if (other.Find(rank).has_value() == are_in_other) ranks.push_back(rank);
  }
  return ranks;
}

template <typename RanksOf>
int CombineGroups(const char* call, FMI_Group left, FMI_Group right, FMI_Group* made, RanksOf ranks_of) {
  const auto one = GroupIn(call, left), other = GroupIn(call, right);
  return one && other ? SetGroup(made, Group(ranks_of(*one, *other))) : SetUnknownGroup(made);
}

}  // namespace

int MakeCommunicator(const char* call, Communicator* parent, Making making, FMI_Comm* made) {
  return Answer(call, TheJob()->objects().communicators.Make(parent, std::move(making), made));
}

int TakeUnknownCommunicator(FMI_Comm* made) {
  *made = TheJob()->objects().communicators.TakeHandle();
  return AnswerFailed();
}

}  // namespace kedge::fmi

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Comm_rank(FMI_Comm comm, int* rank) {
  const Communicator* in = CommunicatorIn("FMI_Comm_rank", comm);
  if (in == nullptr) return AnswerFailed();
  *rank = static_cast<int>(in->channel.rank());
  return FMI_SUCCESS;
}

int FMI_Comm_size(FMI_Comm comm, int* size) {
  const Communicator* in = CommunicatorIn("FMI_Comm_size", comm);
  if (in == nullptr) return AnswerFailed();
  *size = static_cast<int>(in->channel.ranks());
  return FMI_SUCCESS;
}

int FMI_Comm_compare(FMI_Comm left, FMI_Comm right, int* result) {
  const Communicator* one = CommunicatorIn("FMI_Comm_compare", left);
  const Communicator* other = CommunicatorIn("FMI_Comm_compare", right);
  if (one == nullptr || other == nullptr) return AnswerFailed();
  if (one == other) {
    *result = FMI_IDENT;
  } else if (*one->group == *other->group) {
    *result = FMI_CONGRUENT;
  } else {
    *result = one->group->HasSameRanks(*other->group) ? FMI_SIMILAR : FMI_UNEQUAL;
  }
  return FMI_SUCCESS;
}

int FMI_Comm_dup(FMI_Comm comm, FMI_Comm* made) {
  constexpr char kCall[] = "FMI_Comm_dup";
  Communicator* parent = CommunicatorIn(kCall, comm);
  if (parent == nullptr) return TakeUnknownCommunicator(made);
  const Wish wish{0, static_cast<int32_t>(parent->channel.rank())};
  return MakeCommunicator(kCall, parent, {Making::Call::kDup, wish, *parent->group, parent->grid}, made);
}

int FMI_Comm_split(FMI_Comm comm, int colour, int key, FMI_Comm* made) {
  constexpr char kCall[] = "FMI_Comm_split";
  if (colour < 0 && colour != FMI_UNDEFINED) Die(kCall, fmt::format("the colour is {}", colour));
  Communicator* parent = CommunicatorIn(kCall, comm);
  if (parent == nullptr) return TakeUnknownCommunicator(made);
  const Wish wish{colour == FMI_UNDEFINED ? Wish::kNowhere : colour, key};
  return MakeCommunicator(kCall, parent, {Making::Call::kSplit, wish, std::nullopt, std::nullopt}, made);
}

int FMI_Comm_split_type(FMI_Comm comm, int type, int key, FMI_Comm* made) {
  constexpr char kCall[] = "FMI_Comm_split_type";
  if (type != FMI_COMM_TYPE_SHARED && type != FMI_UNDEFINED) Die(kCall, fmt::format("there is no type {} of parts", type));
  Communicator* parent = CommunicatorIn(kCall, comm);
  if (parent == nullptr) return TakeUnknownCommunicator(made);
  const Wish wish{type == FMI_UNDEFINED ? Wish::kNowhere : static_cast<int32_t>(TheJob()->FirstRankHere()), key};
  return MakeCommunicator(kCall, parent, {Making::Call::kSplit, wish, std::nullopt, std::nullopt}, made);
}

int FMI_Comm_create(FMI_Comm comm, FMI_Group group, FMI_Comm* made) {
  constexpr char kCall[] = "FMI_Comm_create";
  Communicator* parent = CommunicatorIn(kCall, comm);
  const std::shared_ptr<const Group> members = GroupIn(kCall, group);
  if (parent == nullptr || !members) return TakeUnknownCommunicator(made);
  for (const uint32_t rank : members->ranks()) {
    if (!parent->group->Find(rank))
      Die(kCall, fmt::format("the group has rank {} of the job, and the communicator has not", rank));
  }
  Wish wish;
  const auto own = members->Find(TheJob()->messenger().rank());
  // Groups without a common rank may be made at once: each is called by its first one.
  if (own) wish = {static_cast<int32_t>((*members)[0]), static_cast<int32_t>(*own)};
  return MakeCommunicator(kCall, parent, {Making::Call::kCreate, wish, *members, std::nullopt}, made);
}

int FMI_Comm_free(FMI_Comm* comm) {
  constexpr char kCall[] = "FMI_Comm_free";
  CheckNotNull(kCall, comm, "the communicator");
  if (*comm == FMI_COMM_WORLD) Die(kCall, "FMI_COMM_WORLD cannot be freed");
  const bool is_there = CommunicatorIn(kCall, *comm) != nullptr;
  if (is_there) TheJob()->objects().communicators.Free(*comm);
  *comm = FMI_COMM_NULL;
  return is_there ? FMI_SUCCESS : AnswerFailed();
}

int FMI_Comm_group(FMI_Comm comm, FMI_Group* group) {
  const Communicator* in = CommunicatorIn("FMI_Comm_group", comm);
  return in == nullptr ? SetUnknownGroup(group) : SetGroup(group, *in->group);
}

int FMI_Group_incl(FMI_Group group, int count, const int* ranks, FMI_Group* made) {
  constexpr char kCall[] = "FMI_Group_incl";
  const auto of = GroupIn(kCall, group);
  const std::vector<int> members = CheckedMembers(kCall, count, ranks);
  return of ? SetChecked(kCall, made, of->Include(members)) : SetUnknownGroup(made);
}

int FMI_Group_excl(FMI_Group group, int count, const int* ranks, FMI_Group* made) {
  constexpr char kCall[] = "FMI_Group_excl";
  const auto of = GroupIn(kCall, group);
  const std::vector<int> members = CheckedMembers(kCall, count, ranks);
  return of ? SetChecked(kCall, made, of->Exclude(members)) : SetUnknownGroup(made);
}

int FMI_Group_union(FMI_Group left, FMI_Group right, FMI_Group* made) {
  return CombineGroups("FMI_Group_union", left, right, made, [](const Group& one, const Group& other) {
    std::vector<uint32_t> ranks = one.ranks();
    for (const uint32_t rank : other.ranks()) {
      if (!one.Find(rank)) ranks.push_back(rank);
    }
    return ranks;
  });
}

int FMI_Group_intersection(FMI_Group left, FMI_Group right, FMI_Group* made) {
  return CombineGroups("FMI_Group_intersection", left, right, made,
                       [](const Group& one, const Group& other) { return Those(one, other, /*are_in_other=*/true); });
}

int FMI_Group_difference(FMI_Group left, FMI_Group right, FMI_Group* made) {
  return CombineGroups("FMI_Group_difference", left, right, made,
                       [](const Group& one, const Group& other) { return Those(one, other, /*are_in_other=*/false); });
}

int FMI_Group_compare(FMI_Group left, FMI_Group right, int* result) {
  const auto one = GroupIn("FMI_Group_compare", left), other = GroupIn("FMI_Group_compare", right);
  if (!one || !other) return AnswerFailed();
  *result = *one == *other ? FMI_IDENT : one->HasSameRanks(*other) ? FMI_SIMILAR : FMI_UNEQUAL;
  return FMI_SUCCESS;
}

int FMI_Group_rank(FMI_Group group, int* rank) {
  const auto of = GroupIn("FMI_Group_rank", group);
  if (!of) return AnswerFailed();
  const auto own = of->Find(TheJob()->messenger().rank());
  *rank = own ? static_cast<int>(*own) : FMI_UNDEFINED;
  return FMI_SUCCESS;
}

int FMI_Group_size(FMI_Group group, int* size) {
  const auto of = GroupIn("FMI_Group_size", group);
  if (!of) return AnswerFailed();
  *size = static_cast<int>(of->size());
  return FMI_SUCCESS;
}

int FMI_Group_translate_ranks(FMI_Group from, int count, const int* ranks, FMI_Group to, int* translated) {
  constexpr char kCall[] = "FMI_Group_translate_ranks";
  const auto one = GroupIn(kCall, from);
  const auto other = GroupIn(kCall, to);
  CheckCount(kCall, count);
  if (!one || !other) return AnswerFailed();
  for (int i = 0; i < count; ++i) {
    if (ranks[i] == FMI_PROC_NULL) {
      translated[i] = FMI_PROC_NULL;
      continue;
    }
    if (ranks[i] < 0 || ranks[i] >= static_cast<int>(one->size())) {
      Die(kCall, fmt::format("rank {} is asked for, and the group has {} ranks", ranks[i], one->size()));
    }
    const auto there = other->Find((*one)[static_cast<uint32_t>(ranks[i])]);
    translated[i] = there ? static_cast<int>(*there) : FMI_UNDEFINED;
  }
  return FMI_SUCCESS;
}

int FMI_Group_free(FMI_Group* group) {
  constexpr char kCall[] = "FMI_Group_free";
  CheckNotNull(kCall, group, "the group");
  const bool is_there = GroupIn(kCall, *group) != nullptr;
  TheJob()->objects().groups.Remove(*group);
  *group = FMI_GROUP_NULL;
  return is_there ? FMI_SUCCESS : AnswerFailed();
}
