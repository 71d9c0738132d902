// Stands where an agent would, at its socket: for what a client makes of an agent's words, which a real one says in its own time.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "os/files/files.h"
#include "os/sockets/unix_socket.h"
#include "session/messages.h"

namespace kedge::client::testing {

class FakeAgent {
 public:
  // `answer`: the frame that goes back for the message with that number; "": the connection is closed. Called on the agent's
  // own thread.
  using Answer = std::function<std::string(uint64_t number)>;

  FakeAgent(const std::string& socket_path, Answer answer) : answer_(std::move(answer)) {
    EXPECT_TRUE(os::MakeFolders(os::SystemFileSystem(), os::ParentPath(socket_path), 0700, false).ok());
    auto listener = os::UnixListener::Listen(socket_path);
    EXPECT_TRUE(listener.ok()) << listener.status().ToString();
    if (!listener.ok()) return;
    thread_ = std::thread([this, listener = std::move(*listener)]() mutable { Run(&listener); });
  }
  ~FakeAgent() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

  int asked() const { return asked_; }

 private:
  void Run(os::UnixListener* listener) {
    std::vector<os::UnixSocket> clients;
    while (!stop_) {
      auto accepted = listener->Accept();
      if (accepted.ok() && accepted->has_value()) clients.push_back(std::move(**accepted));
      std::erase_if(clients, [this](os::UnixSocket& client) { return !Serve(&client); });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  // False when the connection is to end.
  bool Serve(os::UnixSocket* client) {
    const auto asked = client->TryReceive();
    if (!asked.ok()) return false;
    if (!asked->has_value()) return true;
    const auto message = DecodeMessage(AsBytes((*asked)->body));
    ++asked_;
    const std::string text = answer_(message.ok() ? message->number : 0);
    return !text.empty() && client->Send(text, {}, std::chrono::seconds(5)).ok();
  }

  const Answer answer_;
  std::atomic<bool> stop_{false};
  std::atomic<int> asked_{0};
  std::thread thread_;
};

}  // namespace kedge::client::testing
