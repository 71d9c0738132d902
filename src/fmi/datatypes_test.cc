#include "fmi/datatypes.h"

#include <gtest/gtest.h>

#include <complex>
#include <cstddef>
#include <vector>

namespace kedge::fmi {
namespace {

template <typename T>
T Combined(FMI_Datatype type, FMI_Op op, T left, T right) {
  EXPECT_EQ(BytesOf(type), sizeof(T));
  EXPECT_EQ(AlignmentOf(type), alignof(T));
  const Combine combine = CombineOf(type, op);
  if (combine == nullptr) {
    ADD_FAILURE() << "no operation " << op << " on type " << type;
    return left;
  }
  combine(&left, &right, 1);
  return left;
}

TEST(Datatypes, CombinesNumbers) {
  EXPECT_EQ(Combined<short>(FMI_SHORT, FMI_SUM, 7, -9), -2);
  EXPECT_EQ(Combined<unsigned short>(FMI_UNSIGNED_SHORT, FMI_PROD, 300, 300), static_cast<unsigned short>(90000));
  EXPECT_EQ(Combined<signed char>(FMI_SIGNED_CHAR, FMI_MIN, -1, 1), -1);
  EXPECT_EQ(Combined<unsigned char>(FMI_UNSIGNED_CHAR, FMI_MAX, 200, 100), 200);
  EXPECT_EQ(Combined<unsigned long long>(FMI_UNSIGNED_LONG_LONG, FMI_MAX, ~0ULL, 1), ~0ULL);
  EXPECT_EQ(Combined<long double>(FMI_LONG_DOUBLE, FMI_SUM, 0.5L, 0.25L), 0.75L);
  using Complex = std::complex<double>;
  EXPECT_EQ(Combined<Complex>(FMI_C_DOUBLE_COMPLEX, FMI_PROD, {0, 1}, {0, 1}), Complex(-1, 0));
}

TEST(Datatypes, CombinesTruthAndBits) {
  EXPECT_EQ(Combined<int>(FMI_INT, FMI_LAND, 4, 2), 1);
  EXPECT_EQ(Combined<long>(FMI_LONG, FMI_LOR, 0, 0), 0);
  EXPECT_EQ(Combined<int>(FMI_INT, FMI_LXOR, 4, 2), 0);
  EXPECT_EQ(Combined<bool>(FMI_C_BOOL, FMI_LXOR, true, false), true);
  EXPECT_EQ(Combined<unsigned>(FMI_UNSIGNED, FMI_BAND, 12, 10), 8U);
  EXPECT_EQ(Combined<unsigned>(FMI_UNSIGNED, FMI_BOR, 12, 10), 14U);
  EXPECT_EQ(Combined<std::byte>(FMI_BYTE, FMI_BXOR, std::byte{12}, std::byte{10}), std::byte{6});
}

struct Located {
  double value;
  int index;
};

TEST(Datatypes, FindsWhereTheLeastAndTheGreatestAre) {
  EXPECT_EQ(Combined<Located>(FMI_DOUBLE_INT, FMI_MINLOC, {2, 0}, {1, 5}).index, 5);
  EXPECT_EQ(Combined<Located>(FMI_DOUBLE_INT, FMI_MAXLOC, {2, 0}, {1, 5}).index, 0);
  EXPECT_EQ(Combined<Located>(FMI_DOUBLE_INT, FMI_MINLOC, {1, 7}, {1, 5}).index, 5);
  EXPECT_EQ(Combined<Located>(FMI_DOUBLE_INT, FMI_MAXLOC, {1, 3}, {1, 5}).index, 3);
}

TEST(Datatypes, RefusesWhatHasNoMeaning) {
  EXPECT_EQ(CombineOf(FMI_BYTE, FMI_SUM), nullptr);
  EXPECT_EQ(CombineOf(FMI_DOUBLE, FMI_BAND), nullptr);
  EXPECT_EQ(CombineOf(FMI_C_FLOAT_COMPLEX, FMI_MAX), nullptr);
  EXPECT_EQ(CombineOf(FMI_2INT, FMI_SUM), nullptr);
  EXPECT_EQ(CombineOf(FMI_INT, FMI_MAXLOC), nullptr);
  EXPECT_EQ(CombineOf(FMI_2INT + 1, FMI_SUM), nullptr);
  EXPECT_EQ(BytesOf(FMI_DATATYPE_NULL), 0U);
}

}  // namespace
}  // namespace kedge::fmi
