#include "agent/gather/staging_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/json.h"
#include "base/log.h"
#include "format/name_encoding.h"
#include "net/secret_file.h"
#include "os/files/files.h"

namespace kedge {
namespace {

constexpr char kSuffix[] = ".staging";
constexpr uint64_t kFileBytesMax = 4096;

std::string SecretPath(const std::string& folder) {
  return os::JoinPath(folder, "secret");
}
std::string AddressPath(const std::string& folder, const std::string& node) {
  return os::JoinPath(folder, EncodeName(node) + kSuffix);
}

}  // namespace

std::string StagingNetwork::Name() const {
  const std::string hex = secret.ToHex();
  return fmt::format("staging/{:08x}", crc32c::Compute(reinterpret_cast<const std::byte*>(hex.data()), hex.size()));
}

net::Membership StagingNetwork::MembershipOf(const std::string& self) const {
  net::Membership membership;
  membership.job = Name();
  membership.attempt = 1;
  membership.self = self;
  membership.secret = secret;
  for (const JobNode& agent : agents) {
    const auto address = net::NodeAddress::FromText(agent.address);
    if (address.has_value()) membership.members.push_back({agent.name, *address});
  }
  return membership;
}

Result<StagingNetwork> FindStaging(const std::string& folder) {
  StagingNetwork network;
  os::FileSystem& fs = os::SystemFileSystem();
  KEDGE_ASSIGN_OR_RETURN(const auto entries, fs.List(folder));
  for (const os::FolderEntry& entry : entries) {
    if (!entry.name.ends_with(kSuffix)) continue;
    const auto text = os::ReadFile(fs, os::JoinPath(folder, entry.name), kFileBytesMax);
    const Json said = text.ok() ? Json::parse(*text, nullptr, false) : Json();
    if (!said.is_object() || !said.value("name", Json()).is_string() || !said.value("address", Json()).is_string()) {
      LogWarning("agent", "{}/{} does not say where a staging agent is", folder, entry.name);
      continue;
    }
    network.agents.push_back({said["name"], said["name"], said["address"], {}});
  }
  if (network.agents.empty()) return Status(Code::kNotFound, "no staging agent says in " + folder + " where it is");
  std::ranges::sort(network.agents, {}, &JobNode::name);
  KEDGE_ASSIGN_OR_RETURN(network.secret, net::ReadSecret(SecretPath(folder)));
  return network;
}

Result<StagingNetwork> AnnounceStaging(const std::string& folder, const std::string& node, const std::string& address) {
  StagingNetwork network;
  os::FileSystem& fs = os::SystemFileSystem();
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs, folder, 0700, false));
  KEDGE_ASSIGN_OR_RETURN(network.secret, net::ReadOrMakeSecret(SecretPath(folder)));
  const Json where = {{"name", node}, {"address", address}};
  KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(fs, AddressPath(folder, node), where.dump(), "agent"));
  return network;
}

void WithdrawStaging(const std::string& folder, const std::string& node) {
  (void)os::UnlinkIfPresent(os::SystemFileSystem(), AddressPath(folder, node));
}

}  // namespace kedge
