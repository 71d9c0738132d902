// Two hosts with a network each and a link between them that a test cuts, mends or slows down (the script hosts beside this
// one). Ends with the object, also after a failure. Whoever includes this defines KEDGE_HOSTS, the script's path.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "os/testing/temporary_folder.h"
#include "tests/support/child_process.h"

namespace kedge::testing {

class TwoHosts {
 public:
  // Command lines; what is run on the left may be several.
  TwoHosts(const std::vector<std::string>& left, const std::string& right)
      : process_(Command(folder_.path(), left, right), {}, folder_.path() + "/out") {
    EXPECT_TRUE(process_.WaitForOutput("hosts are up", kPatience)) << process_.Output();
  }
  ~TwoHosts() {
    Write("end", "x");
    EXPECT_TRUE(process_.Wait(kPatience).has_value());
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  void Cut() {
    Write("cut", "right");
    WaitUntilCut();
  }
  // By whomever.
  void WaitUntilCut() { EXPECT_TRUE(process_.WaitForOutput("link of right is cut", kPatience)) << process_.Output(); }
  void Mend() { Write("mend", "right"); }
  // As tc names rates: "8mbit". Both ways.
  void HoldLinkTo(const std::string& rate) {
    Write("slow", rate);
    EXPECT_TRUE(process_.WaitForOutput("links are held to " + rate, kPatience)) << process_.Output();
  }
  void StartLeft(const std::string& command) { Write("start", "left " + command); }
  // What the commands of that side have written.
  std::string Output(const std::string& side) const {
    std::ifstream file(folder_.path() + "/" + side + ".out");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};
  static std::vector<std::string> Command(const std::string& folder, const std::vector<std::string>& left,
                                          const std::string& right) {
    std::vector<std::string> command = {KEDGE_HOSTS, folder, "left", "right", "--"};
    for (const std::string& line : left) command.insert(command.end(), {"left", line});
    command.insert(command.end(), {"right", right});
    return command;
  }
  // Whole or not at all: the script looks for it all the time.
  void Write(const std::string& name, const std::string& content) {
    const std::string path = folder_.path() + "/" + name;
    { std::ofstream(path + ".new") << content; }
    EXPECT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  }

  os::testing::TemporaryFolder folder_;
  ChildProcess process_;
};

}  // namespace kedge::testing
