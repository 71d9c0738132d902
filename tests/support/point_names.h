// Names of tests that have a kill point or the like as their parameter: "piece-written:2" becomes "piece_written_2".
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace kedge::testing {

inline std::string AsTestName(std::string text) {
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return text;
}

template <typename Text>
std::string NameOfPoint(const ::testing::TestParamInfo<Text>& point) {
  return AsTestName(point.param);
}

}  // namespace kedge::testing
