// See burst_server.h.
#include "tests/histories/burst_server.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "store/buffer/buffer_location.h"
#include "store/places/make_store.h"

namespace kedge::histories {
namespace {

constexpr char kOwner[] = "histories";
constexpr char kLoopback[] = "127.0.0.1";
constexpr std::chrono::seconds kBeginPatience{60};

}  // namespace

BurstServer::BurstServer(std::string name, const std::string& programs, const std::string& folder, const std::string& drains_to,
                         std::string partner, const std::map<std::string, std::string>& environment)
    : name_(std::move(name)),
      programs_(programs),
      folder_(folder),
      drains_to_(drains_to),
      partner_(std::move(partner)),
      environment_(environment) {
  std::filesystem::create_directories(folder_);
  Start();
}

void BurstServer::Start() {
  const std::string where = folder_ + "/" + name_ + ".buffer";
  std::filesystem::remove(where);
  const std::string log = folder_ + "/" + name_ + "-" + std::to_string(++started_) + ".log";
  std::vector<std::string> command = {programs_ + "/histories_buffer",
                                      "--name",
                                      name_,
                                      "--path",
                                      Data(),
                                      "--folder",
                                      folder_,
                                      "--owner",
                                      std::string(kOwner) + ":" + folder_ + "/secret",
                                      "--memory",
                                      "32MiB",
                                      "--partner-patience",
                                      "2s",
                                      "--interface",
                                      kLoopback};
  // Processes that name the world's own folder are taken for what agents have left.
  const auto place = std::filesystem::path(drains_to_).parent_path().parent_path();
  if (!drains_to_.empty()) command.insert(command.end(), {"--drain", std::string(kOwner) + ":" + place.string()});
  server_ = std::make_unique<testing::ChildProcess>(command, environment_, log);
  for (const auto end = std::chrono::steady_clock::now() + kBeginPatience; !std::filesystem::exists(where);) {
    if (std::chrono::steady_clock::now() > end || server_->Wait(std::chrono::milliseconds(5)).has_value())
      throw std::runtime_error("the burst buffer does not begin: " + server_->Output());
  }
}

std::string BurstServer::StorePath() const {
  buffer::StoreLocation location{name_, "kept", folder_, kOwner, folder_ + "/secret", "tcp", kLoopback};
  location.drain = drains_to_;
  location.partner = partner_;
  return location.ToText();
}

std::unique_ptr<Store> BurstServer::Open() const {
  return MakeStore(os::SystemFileSystem(), {.path = StorePath()});
}

bool BurstServer::Break(const std::string& how) {
  if (!broken_.empty()) return false;
  if (how == "away" || how == "lost") {
    server_->Kill();
    if (how == "lost") std::filesystem::remove_all(Data());
  } else if (how == "still") {
    server_->Signal(SIGSTOP);
  } else {
    return false;
  }
  broken_ = how;
  return true;
}

void BurstServer::Mend() {
  if (broken_ == "away" || broken_ == "lost") Start();
  if (broken_ == "still") server_->Signal(SIGCONT);
  broken_.clear();
}

}  // namespace kedge::histories
