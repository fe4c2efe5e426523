// PowerSGD of a bucket on two ranks, whatever the gradients: ranks that see the same means stay the
// same, and what is not finite is not kept.
//
//   input[0]  rank of the products
//   the rest  steps: how, then a value for some elements, the bytes of a float

#include <cmath>
#include <cstring>
#include <limits>

#include "common/compress/low_rank/low_rank_bucket.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_reader.h"

namespace gradwire {
namespace {

constexpr size_t kRanks = 2;
constexpr int kMostSteps = 8;
// A step can leave an infinity behind, of values that are nearly that; the next one finds it, and
// that one's matrices begin anew. What a residual keeps of such values can do so again.
constexpr int kQuietSteps = 32;

bool IsFinite(absl::Span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A process with both ranks, and one for each; they exchange sums that are the same for all.
class Ranks {
 public:
  explicit Ranks(uint64_t rank) : layout_({{12, 9}, {5}, {8, 3, 3}}, rank) {
    together_.emplace_back(&layout_, Bucket(1), kRanks);
    for (size_t i = 0; i < kRanks; ++i) alone_.emplace_back(&layout_, Bucket(1), 1);
  }

  size_t size() const { return layout_.size; }

  // "" or what is violated; `mean` is what all ranks apply.
  std::string DoStep(const std::vector<std::vector<float>>& gradients, std::vector<float>* mean) {
    LowRankBucket& both = together_.front();
    for (size_t i = 0; i < kRanks; ++i) {
      both.Project(i, gradients[i]);
      alone_[i].Project(0, gradients[i]);
      if (!SameBits(both.left(i), alone_[i].left(0))) return "P depends on who carries a rank";
    }
    Give(&LowRankBucket::left, &LowRankBucket::left_mean);
    ProjectAllBack();
    Give(&LowRankBucket::right, &LowRankBucket::right_mean);
    both.Reconstruct(absl::MakeSpan(*mean));
    std::vector<float> other(mean->size());
    for (LowRankBucket& one : alone_) {
      one.Reconstruct(absl::MakeSpan(other));
      if (!SameBits(*mean, other)) return "ranks apply different means";
    }
    Renew();
    return "";
  }

 private:
  using Terms = absl::Span<const float> (LowRankBucket::*)(size_t) const;
  using Mean = absl::Span<float> (LowRankBucket::*)();

  // The mean of both ranks' terms, to all.
  void Give(Terms terms, Mean mean) {
    const LowRankBucket& both = together_.front();
    const absl::Span<const float> a = (both.*terms)(0), b = (both.*terms)(1);
    for (size_t i = 0; i < a.size(); ++i) {
      const float value = (a[i] + b[i]) * 0.5f;
      (together_.front().*mean)()[i] = value;
      for (LowRankBucket& one : alone_) (one.*mean)()[i] = value;
    }
  }
  void ProjectAllBack() {
    together_.front().ProjectBack();
    for (LowRankBucket& one : alone_) one.ProjectBack();
  }
  void Renew() {
    together_.front().Renew(step_);
    for (LowRankBucket& one : alone_) one.Renew(step_);
    ++step_;
  }

  const LowRankLayout layout_;
  std::vector<LowRankBucket> together_, alone_;
  Step step_{0};
};

// Ordinary values, of which some are the input's.
std::vector<float> GradientOf(size_t size, size_t rank, InputReader* input) {
  std::vector<float> gradient(size);
  for (size_t i = 0; i < size; ++i) gradient[i] = static_cast<float>((i * 7 + rank * 3) % 11) - 5;
  const uint8_t how = input->Byte();
  uint8_t bytes[sizeof(float)];
  for (uint8_t& byte : bytes) byte = input->Byte();
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  const size_t every = how % 16 == 0 ? size : how % 16;
  for (size_t i = how / 16; i < size; i += every) gradient[i] = value;
  return gradient;
}

}  // namespace

std::string ViolatedByLowRank(absl::string_view bytes) {
  InputReader input(bytes);
  Ranks ranks(1 + input.Below(3));
  std::vector<float> mean(ranks.size());
  for (int step = 0; step < kMostSteps && !input.is_done(); ++step) {
    std::vector<std::vector<float>> gradients;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      gradients.push_back(GradientOf(ranks.size(), rank, &input));
    }
    const std::string violated = ranks.DoStep(gradients, &mean);
    if (!violated.empty()) return violated;
  }
  InputReader nothing("");
  for (int step = 0; step < kQuietSteps; ++step) {
    const std::string violated = ranks.DoStep(
        {GradientOf(ranks.size(), 0, &nothing), GradientOf(ranks.size(), 1, &nothing)}, &mean);
    if (!violated.empty()) return violated;
  }
  return IsFinite(mean) ? "" : "what is not finite is kept";
}

std::vector<std::string> LowRankSeeds() {
  const std::string ordinary = {'\x10', 0, 0, '\x80', '\x3f'}, nan = {'\x21', 0, 0, '\xc0', '\x7f'},
                    largest = {'\x01', '\xff', '\xff', '\x7f', '\x7f'}, zeros = {1, 0, 0, 0, 0},
                    tiny = {'\x02', 1, 0, 0, 0}, infinity = {'\x35', 0, 0, '\x80', '\xff'};
  std::vector<std::string> seeds = {""};
  for (const char rank : {'\0', '\1', '\2'}) {
    for (const auto& bad : {nan, largest, zeros, tiny, infinity}) {
      seeds.push_back(rank + ordinary + ordinary + bad + ordinary + zeros + bad);
    }
  }
  return seeds;
}

}  // namespace gradwire
