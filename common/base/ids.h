#ifndef GRADWIRE_COMMON_BASE_IDS_H_
#define GRADWIRE_COMMON_BASE_IDS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"

namespace gradwire {

// An integer that cannot be mixed with integers of another meaning. Construction is explicit;
// `value()` returns the number for arithmetic and printing.
template <typename Tag, typename T>
class StrongInt {
 public:
  using ValueType = T;
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  StrongInt& operator++() {
    ++value_;
    return *this;
  }
  friend constexpr bool operator==(StrongInt a, StrongInt b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(StrongInt a, StrongInt b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(StrongInt a, StrongInt b) { return a.value_ < b.value_; }
  friend constexpr bool operator<=(StrongInt a, StrongInt b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>(StrongInt a, StrongInt b) { return a.value_ > b.value_; }
  friend constexpr bool operator>=(StrongInt a, StrongInt b) { return a.value_ >= b.value_; }
  template <typename H>
  friend H AbslHashValue(H h, StrongInt id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongInt id) { return out << id.value_; }

 private:
  T value_ = 0;
};

// One share of the data and one term of every averaged gradient; 0 ≤ rank < W.
using Rank = StrongInt<struct RankTag, int>;
// One optimizer update, counted from 0 over the whole run.
using Step = StrongInt<struct StepTag, uint64_t>;
// A set of buckets that is exchanged under one name, such as all buckets of a model. Counted from 0
// in the order of declaration, which is the same on all workers.
using LayoutId = StrongInt<struct LayoutIdTag, int>;
// Index of a contiguous range of the data that is exchanged in a step.
using Bucket = StrongInt<struct BucketTag, int>;
// Number of a view of the run; only increases.
using Generation = StrongInt<struct GenerationTag, uint64_t>;
// Number of starts of this run's coordinator; only increases.
using CoordinatorEpoch = StrongInt<struct CoordinatorEpochTag, uint64_t>;
// Random id of one start of one process.
using Incarnation = StrongInt<struct IncarnationTag, uint64_t>;

// Names one training job.
using RunId = std::array<uint8_t, 16>;

// Returns 32 lower-case hexadecimal digits.
std::string ToHex(const RunId& run_id);
// Returns a random id from the operating system.
RunId MakeRunId();
Incarnation MakeIncarnation();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_IDS_H_
