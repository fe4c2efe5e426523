#ifndef GRADWIRE_COMMON_TELEMETRY_MEAN_ESTIMATE_H_
#define GRADWIRE_COMMON_TELEMETRY_MEAN_ESTIMATE_H_

#include <cstdint>

namespace gradwire {

// The mean of some values, and how far chance moves it. Keeps no values (Welford's method). Not
// thread-safe.
class MeanEstimate {
 public:
  void Add(double value) {
    ++count_;
    const double off = value - mean_;
    mean_ += off / static_cast<double>(count_);
    squares_ += off * (value - mean_);
  }

  int64_t count() const { return count_; }
  // 0 without values.
  double mean() const { return mean_; }
  // Returns the square of the mean's standard error, in the unit of a value squared; 0 with fewer
  // than two values.
  double variance() const {
    const double count = static_cast<double>(count_);
    return count_ < 2 ? 0 : squares_ / (count * (count - 1));
  }

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of the squared distances from the mean
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_MEAN_ESTIMATE_H_
