#include "fmi/datatypes.h"

#include <algorithm>
#include <complex>
#include <iterator>

namespace kedge::fmi {
namespace {

template <typename T>
struct Located {
  T value;
  int index;
};

constexpr auto kSum = [](auto left, auto right) { return left + right; };
constexpr auto kProduct = [](auto left, auto right) { return left * right; };
constexpr auto kLeast = [](auto left, auto right) { return std::min(left, right); };
constexpr auto kGreatest = [](auto left, auto right) { return std::max(left, right); };
constexpr auto kBoth = [](auto left, auto right) { return left != 0 && right != 0; };
constexpr auto kEither = [](auto left, auto right) { return left != 0 || right != 0; };
constexpr auto kOne = [](auto left, auto right) { return (left != 0) != (right != 0); };
constexpr auto kBitsOfBoth = [](auto left, auto right) { return left & right; };
constexpr auto kBitsOfEither = [](auto left, auto right) { return left | right; };
constexpr auto kBitsOfOne = [](auto left, auto right) { return left ^ right; };
constexpr auto kLeastFirst = [](auto left, auto right) {
  if (left.value == right.value) left.index = std::min(left.index, right.index);
  return right.value < left.value ? right : left;
};
constexpr auto kGreatestFirst = [](auto left, auto right) {
  if (left.value == right.value) left.index = std::min(left.index, right.index);
  return right.value > left.value ? right : left;
};

template <typename T, const auto& operation>
void Each(void* into, const void* from, size_t count) {
  T* left = static_cast<T*>(into);
  const T* right = static_cast<const T*>(from);
  for (size_t i = 0; i < count; ++i) left[i] = static_cast<T>(operation(left[i], right[i]));
}

template <typename T>
CombineNumbers OfNumbers(FMI_Op op) {
  switch (op) {
    case FMI_SUM: return Each<T, kSum>;
    case FMI_PROD: return Each<T, kProduct>;
    case FMI_MIN: return Each<T, kLeast>;
    case FMI_MAX: return Each<T, kGreatest>;
  }
  return nullptr;
}

template <typename T>
CombineNumbers OfComplex(FMI_Op op) {
  return op == FMI_SUM ? Each<T, kSum> : op == FMI_PROD ? Each<T, kProduct> : nullptr;
}

template <typename T>
CombineNumbers OfLocated(FMI_Op op) {
  return op == FMI_MINLOC ? Each<T, kLeastFirst> : op == FMI_MAXLOC ? Each<T, kGreatestFirst> : nullptr;
}

template <typename T>
CombineNumbers OfBits(FMI_Op op) {
  switch (op) {
    case FMI_BAND: return Each<T, kBitsOfBoth>;
    case FMI_BOR: return Each<T, kBitsOfEither>;
    case FMI_BXOR: return Each<T, kBitsOfOne>;
  }
  return nullptr;
}

template <typename T>
CombineNumbers OfTruth(FMI_Op op) {
  switch (op) {
    case FMI_LAND: return Each<T, kBoth>;
    case FMI_LOR: return Each<T, kEither>;
    case FMI_LXOR: return Each<T, kOne>;
  }
  return nullptr;
}

template <typename T>
CombineNumbers OfIntegers(FMI_Op op) {
  if (const CombineNumbers truth = OfTruth<T>(op); truth != nullptr) return truth;
  const CombineNumbers bits = OfBits<T>(op);
  return bits != nullptr ? bits : OfNumbers<T>(op);
}

struct Language {
  size_t bytes;
  size_t alignment;
  CombineNumbers (*combine)(FMI_Op op);
};

template <typename T>
constexpr Language Of(CombineNumbers (*combine)(FMI_Op op)) {
  return {sizeof(T), alignof(T), combine};
}

// By the numbers of fmi.h.
constexpr Language kLanguage[] = {
    Of<std::byte>(OfBits<unsigned char>),
    Of<char>(OfIntegers<char>),
    Of<int>(OfIntegers<int>),
    Of<long>(OfIntegers<long>),
    Of<long long>(OfIntegers<long long>),
    Of<unsigned>(OfIntegers<unsigned>),
    Of<unsigned long>(OfIntegers<unsigned long>),
    Of<float>(OfNumbers<float>),
    Of<double>(OfNumbers<double>),
    Of<short>(OfIntegers<short>),
    Of<unsigned short>(OfIntegers<unsigned short>),
    Of<signed char>(OfIntegers<signed char>),
    Of<unsigned char>(OfIntegers<unsigned char>),
    Of<unsigned long long>(OfIntegers<unsigned long long>),
    Of<long double>(OfNumbers<long double>),
    Of<bool>(OfTruth<bool>),
    Of<std::complex<float>>(OfComplex<std::complex<float>>),
    Of<std::complex<double>>(OfComplex<std::complex<double>>),
    Of<Located<float>>(OfLocated<Located<float>>),
    Of<Located<double>>(OfLocated<Located<double>>),
    Of<Located<long>>(OfLocated<Located<long>>),
    Of<Located<int>>(OfLocated<Located<int>>),
};
static_assert(std::size(kLanguage) == FMI_2INT + 1);

bool IsOfLanguage(FMI_Datatype type) {
  return type >= 0 && type < static_cast<int>(std::size(kLanguage));
}

}  // namespace

size_t BytesOf(FMI_Datatype type) {
  return IsOfLanguage(type) ? kLanguage[type].bytes : 0;
}

size_t AlignmentOf(FMI_Datatype type) {
  return kLanguage[type].alignment;
}

CombineNumbers CombineOf(FMI_Datatype type, FMI_Op op) {
  return IsOfLanguage(type) ? kLanguage[type].combine(op) : nullptr;
}

}  // namespace kedge::fmi
