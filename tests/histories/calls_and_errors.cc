// See calls_and_errors.h.
#include "tests/histories/calls_and_errors.h"

#include <cerrno>
#include <map>

namespace kedge::histories {
namespace {

using os::testing::Call;
using os::testing::CallsOf;

template <typename Value>
std::optional<Value> Find(const std::map<std::string, Value>& among, const std::string& name) {
  const auto found = among.find(name);
  return found == among.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<os::testing::CallSet> CallNamed(const std::string& name) {
  static const std::map<std::string, os::testing::CallSet> calls = {
      {"any", os::testing::kEveryCall},   {"open", CallsOf(Call::kOpen)},   {"pread", CallsOf(Call::kPread)},
      {"pwrite", CallsOf(Call::kPwrite)}, {"fsync", CallsOf(Call::kFsync)}, {"close", CallsOf(Call::kClose)},
      {"rename", CallsOf(Call::kRename)}, {"link", CallsOf(Call::kLink)},   {"mkdir", CallsOf(Call::kMkdir)},
      {"list", CallsOf(Call::kList)},     {"stat", CallsOf(Call::kStat)},
  };
  return Find(calls, name);
}

std::optional<int> ErrorNamed(const std::string& name) {
  static const std::map<std::string, int> errors = {{"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
                                                    {"EROFS", EROFS}, {"ESTALE", ESTALE}, {"ETIMEDOUT", ETIMEDOUT}};
  return Find(errors, name);
}

std::optional<StoreFault> StoreFaultNamed(const std::string& name) {
  static const std::map<std::string, StoreFault> faults = {
      {"full", {CallsOf(Call::kPwrite, Call::kFallocate, Call::kMkdir, Call::kLink), ENOSPC}},
      {"broken", {os::testing::kEveryCall, EIO}},
      {"read-only", {os::testing::kChangingCalls, EROFS}},
  };
  return Find(faults, name);
}

}  // namespace kedge::histories
