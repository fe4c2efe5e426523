// Compiled with -ffp-contract=off: a fused multiply-add would round differently.
#include "common/compress/low_rank/orthonormal.h"

#include <algorithm>
#include <cmath>

namespace gradwire {
namespace {

// What is left of a vector is no more than its rounding errors below this part of it.
constexpr double kLeastPart = 1e-6;
constexpr int kAttempts = 8;

// In double, where no square of a float32 over- or underflows.
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

// Takes out of vector number `index` what those before it have, and makes it 1 long. False, and
// the vector is anything, if nothing is left.
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

}  // namespace gradwire
