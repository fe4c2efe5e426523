// Compiled with -ffp-contract=off: a fused multiply-add would round differently.
#include "common/compress/low_rank/low_rank_bucket.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "common/fold/kernels.h"

namespace gradwire {

namespace {

// A remainder below this part of a vector consists only of rounding errors.
constexpr double kLeastPart = 1e-6;
constexpr int kAttempts = 8;

// In double, so that no square of a float32 over- or underflows.
double Dot(absl::Span<const float> a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void Subtract(absl::Span<const float> unit, double factor, absl::Span<float> vector) {
  for (size_t i = 0; i < vector.size(); ++i) {
    vector[i] = static_cast<float>(vector[i] - factor * unit[i]);
  }
}

// Removes the components along earlier vectors from vector number `index`, and normalizes it.
// Returns false if no part is left; the vector is then unspecified.
bool MakeOne(absl::Span<float> vectors, uint64_t length, size_t index) {
  const absl::Span<float> vector = vectors.subspan(index * length, length);
  const double before = std::sqrt(Dot(vector, vector));
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < index; ++i) {
      const absl::Span<const float> unit = vectors.subspan(i * length, length);
      Subtract(unit, Dot(unit, vector), vector);
    }
  }
  const double left = std::sqrt(Dot(vector, vector));
  if (!(left > kLeastPart * before)) return false;
  for (float& element : vector) element = static_cast<float>(element / left);
  return true;
}

}  // namespace

void Orthonormalize(absl::Span<float> vectors, uint64_t length, const DrawVector& draw) {
  for (size_t index = 0; index * length < vectors.size(); ++index) {
    const absl::Span<float> vector = vectors.subspan(index * length, length);
    bool done = MakeOne(vectors, length, index);
    for (int attempt = 0; !done && draw && attempt < kAttempts; ++attempt) {
      draw(index, attempt, vector);
      done = MakeOne(vectors, length, index);
    }
    if (!done) std::fill(vector.begin(), vector.end(), 0.0f);
  }
}

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint64_t kFirstDraw = 0;  // later draws: after step s, s + 1

// Returns vector number `index` of those that begin at `first`.
template <typename T>
absl::Span<T> VectorOf(absl::Span<T> all, uint64_t first, uint64_t index, uint64_t length) {
  return all.subspan(first + index * length, length);
}

void AddMultiple(absl::Span<const float> in, float factor, absl::Span<float> out) {
  KernelsInUse().add_multiple(in.data(), in.size(), factor, out.data());
}

bool IsFinite(absl::Span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

void Fill(absl::Span<float> values, float value) { std::fill(values.begin(), values.end(), value); }

// Uniform from -1 to 1, in steps of 2^-23; the C++ standard defines the sequence.
void Draw(std::seed_seq key, absl::Span<float> vector) {
  std::mt19937 random(key);
  for (float& element : vector) element = static_cast<float>(random() >> 8) * 0x1p-23f - 1;
}

}  // namespace

LowRankBucket::LowRankBucket(const LowRankLayout* layout, Bucket number, size_t ranks)
    : layout_(*layout),
      number_(static_cast<uint64_t>(number.value())),
      basis_(layout->right_size),
      residual_(ranks, std::vector<float>(layout->residual_size)),
      left_(ranks, std::vector<float>(layout->left_size)),
      right_(ranks, std::vector<float>(layout->right_size)),
      left_mean_(layout->left_size),
      right_mean_(layout->right_size) {
  for (size_t i = 0; i < layout_.matrices.size(); ++i) Begin(i, kFirstDraw);
}

// Orthonormalizes the basis of matrix number `index`.
void LowRankBucket::Begin(size_t index, uint64_t draw) {
  const LowRankMatrix& matrix = layout_.matrices[index];
  Orthonormalize(
      absl::MakeSpan(basis_).subspan(matrix.right, matrix.rank * matrix.columns), matrix.columns,
      [&](size_t vector, int attempt, absl::Span<float> out) {
        Draw({number_, uint64_t{index}, draw, uint64_t{vector}, static_cast<uint64_t>(attempt)},
             out);
      });
}

absl::Span<float> LowRankBucket::Residual(const LowRankMatrix& matrix, size_t rank, uint64_t row) {
  return VectorOf(absl::MakeSpan(residual_[rank]), matrix.residual, row, matrix.columns);
}

void LowRankBucket::Project(size_t rank, absl::Span<const float> gradient) {
  std::vector<float>& left = left_[rank];
  for (const PlainRange& plain : layout_.plain) {
    const absl::Span<const float> values = gradient.subspan(plain.first, plain.size);
    std::copy(values.begin(), values.end(), left.begin() + static_cast<ptrdiff_t>(plain.left));
  }
  for (const LowRankMatrix& matrix : layout_.matrices) {
    for (uint64_t row = 0; row < matrix.rows; ++row) {
      const absl::Span<float> values = Residual(matrix, rank, row);
      AddMultiple(VectorOf(gradient, matrix.first, row, matrix.columns), 1, values);
      for (uint64_t k = 0; k < matrix.rank; ++k) {
        left[matrix.left + k * matrix.rows + row] = KernelsInUse().dot(
            values.data(), &basis_[matrix.right + k * matrix.columns], values.size());
      }
    }
  }
}

// All ranks see the same mean, so all of them see a value that is not finite.
void LowRankBucket::ProjectBack() {
  for (const LowRankMatrix& matrix : layout_.matrices) {
    const absl::Span<float> p = left_mean().subspan(matrix.left, matrix.rank * matrix.rows);
    const bool is_finite = IsFinite(p);
    if (is_finite) Orthonormalize(p, matrix.rows, nullptr);
    for (size_t rank = 0; rank < right_.size(); ++rank) {
      const absl::Span<float> q =
          absl::MakeSpan(right_[rank]).subspan(matrix.right, matrix.rank * matrix.columns);
      Fill(q, is_finite ? 0 : kNan);
      if (is_finite) TakeOut(matrix, rank, p, q);
    }
  }
}

// q = Mᵀ p, from zero, and M −= p qᵀ.
void LowRankBucket::TakeOut(const LowRankMatrix& matrix, size_t rank, absl::Span<const float> p,
                            absl::Span<float> q) {
  for (uint64_t row = 0; row < matrix.rows; ++row) {
    for (uint64_t k = 0; k < matrix.rank; ++k) {
      AddMultiple(Residual(matrix, rank, row), p[k * matrix.rows + row],
                  VectorOf(q, 0, k, matrix.columns));
    }
  }
  for (uint64_t row = 0; row < matrix.rows; ++row) {
    for (uint64_t k = 0; k < matrix.rank; ++k) {
      AddMultiple(VectorOf(q, 0, k, matrix.columns), -p[k * matrix.rows + row],
                  Residual(matrix, rank, row));
    }
  }
}

void LowRankBucket::Reconstruct(absl::Span<float> mean) {
  for (const PlainRange& plain : layout_.plain) {
    const auto values = left_mean().subspan(plain.left, plain.size);
    std::copy(values.begin(), values.end(), mean.begin() + plain.first);
  }
  for (const LowRankMatrix& matrix : layout_.matrices) {
    const absl::Span<float> all = mean.subspan(matrix.first, matrix.rows * matrix.columns);
    if (!IsFinite(right_mean().subspan(matrix.right, matrix.rank * matrix.columns))) {
      Fill(all, kNan);
      Forget(matrix);
      continue;
    }
    Multiply(matrix, all);
  }
}

// out = P Qᵀ, from the means.
void LowRankBucket::Multiply(const LowRankMatrix& matrix, absl::Span<float> out) {
  Fill(out, 0);
  for (uint64_t row = 0; row < matrix.rows; ++row) {
    for (uint64_t k = 0; k < matrix.rank; ++k) {
      AddMultiple(VectorOf(right_mean(), matrix.right, k, matrix.columns),
                  left_mean_[matrix.left + k * matrix.rows + row],
                  VectorOf(out, 0, row, matrix.columns));
    }
  }
}

// Its Q are drawn again because they are zero.
void LowRankBucket::Forget(const LowRankMatrix& matrix) {
  Fill(right_mean().subspan(matrix.right, matrix.rank * matrix.columns), 0);
  for (std::vector<float>& residual : residual_) {
    Fill(absl::MakeSpan(residual).subspan(matrix.residual, matrix.rows * matrix.columns), 0);
  }
}

void LowRankBucket::Renew(Step step) {
  basis_ = right_mean_;
  for (size_t i = 0; i < layout_.matrices.size(); ++i) Begin(i, step.value() + 1);
}

std::vector<absl::Span<float>> LowRankBucket::state() {
  std::vector<absl::Span<float>> state = {absl::MakeSpan(basis_)};
  for (std::vector<float>& residual : residual_) state.push_back(absl::MakeSpan(residual));
  return state;
}

}  // namespace gradwire
