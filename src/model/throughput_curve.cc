#include "model/throughput_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kedge {
namespace {

constexpr size_t kDegree = 3;

// A cubic spline as a sum of B-spline basis functions, each of which is non-zero over four intervals only.
// REQUIRES: at least two positions, increasing strictly.
class BSpline {
 public:
  BSpline(const std::vector<double>& x, const std::vector<double>& y) {
    for (size_t i = 0; i < kDegree; ++i) knots_.push_back(x.front());
    knots_.insert(knots_.end(), x.begin(), x.end());
    for (size_t i = 0; i < kDegree; ++i) knots_.push_back(x.back());
    Solve(x, y);
  }

  // REQUIRES: at lies between the first and the last position.
  double At(double at) const {
    const size_t span = SpanOf(at);
    const auto basis = Basis(span, at, kDegree);
    double sum = 0;
    for (size_t i = 0; i <= kDegree; ++i) sum += basis[i] * coefficients_[span - kDegree + i];
    return sum;
  }

 private:
  using Values = std::array<double, kDegree + 1>;

  // The last knot interval that is not empty and begins at or below `at`.
  size_t SpanOf(double at) const {
    const auto last = knots_.end() - kDegree - 1;
    const auto above = std::upper_bound(knots_.begin() + kDegree, last, at);
    return static_cast<size_t>(above - knots_.begin()) - 1;
  }

  // The `degree` + 1 basis functions of that degree that are non-zero over the interval: Cox and de Boor's recurrence.
  Values Basis(size_t span, double at, size_t degree) const {
    Values basis{1};
    for (size_t d = 1; d <= degree; ++d) {
      double carried = 0;
      for (size_t i = 0; i < d; ++i) {
        const double right = knots_[span + i + 1];
        const double left = knots_[span + i + 1 - d];
        const double part = basis[i] / (right - left);
        basis[i] = carried + (right - at) * part;
        carried = (at - left) * part;
      }
      basis[d] = carried;
    }
    return basis;
  }

  // Second derivatives of the cubic basis functions, by differences of the linear ones.
  Values Curvature(size_t span, double at) const {
    const Values linear = Basis(span, at, 1);
    // d-th degree derivative of function j: d * (lower(j) / (t[j+d] - t[j]) - lower(j+1) / (t[j+d+1] - t[j+1])).
    auto derive = [&](const Values& lower, size_t lower_count, size_t degree) {
      Values result{};
      for (size_t i = 0; i <= lower_count; ++i) {
        const size_t j = span - degree + i;
        double slope = 0;
        if (i > 0) slope += lower[i - 1] / (knots_[j + degree] - knots_[j]);
        if (i < lower_count) slope -= lower[i] / (knots_[j + degree + 1] - knots_[j + 1]);
        result[i] = static_cast<double>(degree) * slope;
      }
      return result;
    };
    return derive(derive(linear, 2, 2), 3, 3);
  }

  // One equation for each sample, and at both ends no curvature ("natural": few samples do not swing the ends).
  // The matrix is banded: elimination touches the rows nearby only.
  void Solve(const std::vector<double>& x, const std::vector<double>& y) {
    const size_t count = x.size() + 2;
    constexpr size_t kWidth = 2 * kDegree + 1;  // column c of row r is at [r][c + kDegree - r]
    std::vector<std::array<double, kWidth>> rows(count, std::array<double, kWidth>{});
    coefficients_.assign(count, 0);
    auto set = [&](size_t row, size_t span, const Values& values, double right_side) {
      for (size_t i = 0; i <= kDegree; ++i) {
        const size_t column = span - kDegree + i;
        if (values[i] != 0) rows[row][column + kDegree - row] = values[i];
      }
      coefficients_[row] = right_side;
    };
    // The order of the rows keeps the diagonal away from zero: sample, curvature, samples, curvature, sample.
    const size_t last_span = SpanOf(x.back());
    set(0, SpanOf(x[0]), Basis(SpanOf(x[0]), x[0], kDegree), y[0]);
    set(1, SpanOf(x[0]), Curvature(SpanOf(x[0]), x[0]), 0);
    for (size_t i = 1; i + 1 < x.size(); ++i) set(i + 1, SpanOf(x[i]), Basis(SpanOf(x[i]), x[i], kDegree), y[i]);
    set(count - 2, last_span, Curvature(last_span, x.back()), 0);
    set(count - 1, last_span, Basis(last_span, x.back(), kDegree), y.back());

    for (size_t pivot = 0; pivot < count; ++pivot) {
      for (size_t row = pivot + 1; row < std::min(count, pivot + kDegree + 1); ++row) {
        const double factor = rows[row][pivot + kDegree - row] / rows[pivot][kDegree];
        if (factor == 0) continue;
        for (size_t column = pivot; column < std::min(count, pivot + kDegree + 1); ++column) {
          rows[row][column + kDegree - row] -= factor * rows[pivot][column + kDegree - pivot];
        }
        coefficients_[row] -= factor * coefficients_[pivot];
      }
    }
    for (size_t row = count; row-- > 0;) {
      for (size_t column = row + 1; column < std::min(count, row + kDegree + 1); ++column) {
        coefficients_[row] -= rows[row][column + kDegree - row] * coefficients_[column];
      }
      coefficients_[row] /= rows[row][kDegree];
    }
  }

  std::vector<double> knots_;
  std::vector<double> coefficients_;
};

Status CheckSamples(const std::vector<ThroughputSample>& samples) {
  if (samples.empty() || samples.size() > ThroughputCurve::kSamplesMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} throughput samples; allowed are 1 to {}", samples.size(), ThroughputCurve::kSamplesMax));
  }
  uint32_t before = 0;
  for (const ThroughputSample& sample : samples) {
    if (sample.writers <= before || sample.writers > ThroughputCurve::kWritersMax) {
      return Status(Code::kInvalidArgument, fmt::format("a throughput sample at {} writers after one at {}; allowed are numbers "
                                                        "that increase, from 1 to {}",
                                                        sample.writers, before, ThroughputCurve::kWritersMax));
    }
    if (!std::isfinite(sample.bytes_per_second) || sample.bytes_per_second <= 0) {
      return Status(Code::kInvalidArgument, fmt::format("{} bytes per second at {} writers; allowed is what is greater than zero",
                                                        sample.bytes_per_second, sample.writers));
    }
    before = sample.writers;
  }
  return Status::Ok();
}

}  // namespace

Result<ThroughputCurve> ThroughputCurve::Fit(std::vector<ThroughputSample> samples) {
  KEDGE_RETURN_IF_ERROR(CheckSamples(samples));
  ThroughputCurve curve;
  const ThroughputSample& first = samples.front();
  curve.totals_.resize(size_t{samples.back().writers} + 1);
  for (uint32_t writers = 1; writers <= first.writers; ++writers) {
    curve.totals_[writers] = first.bytes_per_second * writers / first.writers;
  }
  if (samples.size() > 1) {
    std::vector<double> x, y;
    for (const ThroughputSample& sample : samples) {
      x.push_back(sample.writers);
      y.push_back(sample.bytes_per_second);
    }
    const BSpline spline(x, y);
    for (size_t right = 1; right < samples.size(); ++right) {
      const auto [low, high] = std::minmax(y[right - 1], y[right]);
      for (uint32_t writers = samples[right - 1].writers + 1; writers < samples[right].writers; ++writers) {
        curve.totals_[writers] = std::clamp(spline.At(writers), 0.5 * low, 2 * high);
      }
      curve.totals_[samples[right].writers] = y[right];
    }
  }
  const double best = *std::max_element(curve.totals_.begin(), curve.totals_.end());
  while (curve.totals_[curve.best_writers_] < best * kBest) ++curve.best_writers_;
  curve.most_writers_ = curve.best_writers_;
  while (curve.most_writers_ < curve.totals_.size() && curve.totals_[curve.most_writers_] >= best * kMost) ++curve.most_writers_;
  curve.most_writers_ = curve.most_writers_ == curve.totals_.size() ? UINT32_MAX : curve.most_writers_ - 1;
  curve.samples_ = std::move(samples);
  return curve;
}

}  // namespace kedge
