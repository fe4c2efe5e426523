#include "tests/worker/run/recorded_exchange.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

namespace gradwire::testing {

void RecordedExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time,
                              Done done) {
  under_way_[key] = {result, {}, std::move(done)};
  EndIfComplete(key);
}

void RecordedExchange::Contribute(const BucketKey& key, Rank rank,
                                  absl::Span<const uint8_t> terms) {
  under_way_.at(key).terms[rank.value()] = std::string(terms.begin(), terms.end());
  EndIfComplete(key);
}

void RecordedExchange::EndIfComplete(const BucketKey& key) {
  if (!Complete(key, under_way_.at(key))) return;
  const Transfer transfer = std::move(under_way_.at(key));
  under_way_.erase(key);
  End(key, transfer);
  transfer.done(absl::OkStatus());
}

void RecordedExchange::Cancel(absl::Status reason) {
  for (auto& [key, transfer] : std::exchange(under_way_, {})) transfer.done(reason);
}

bool FoldingExchange::Complete(const BucketKey& key, const Transfer& transfer) const {
  return transfer.terms.size() == (IsBytes(key) ? 1u : static_cast<size_t>(world_size_));
}

void FoldingExchange::End(const BucketKey& key, const Transfer& transfer) {
  std::string result = transfer.terms.at(0);
  if (!IsBytes(key)) {
    auto* sums = reinterpret_cast<float*>(result.data());
    const size_t count = result.size() / sizeof(float);
    for (int rank = 1; rank < world_size_; ++rank) {
      const auto* terms = reinterpret_cast<const float*>(transfer.terms.at(rank).data());
      for (size_t i = 0; i < count; ++i) sums[i] += terms[i];
    }
    for (size_t i = 0; i < count; ++i) sums[i] *= 1.0f / static_cast<float>(world_size_);
  }
  std::memcpy(transfer.result.data(), result.data(), result.size());
  recording_->entries[key] = {transfer.terms, result};
}

bool ReplayingExchange::Complete(const BucketKey& key, const Transfer& transfer) const {
  if (!IsBytes(key)) return transfer.terms.size() == ranks_.size();
  return ranks_.front() != Rank(0) || transfer.terms.size() == 1;
}

void ReplayingExchange::End(const BucketKey& key, const Transfer& transfer) {
  const auto recorded = recording_->entries.find(key);
  ASSERT_NE(recorded, recording_->entries.end()) << ToString(key);
  for (const auto& [rank, terms] : transfer.terms) {
    EXPECT_TRUE(terms == recorded->second.terms.at(rank)) << ToString(key) << ", rank " << rank;
  }
  std::memcpy(transfer.result.data(), recorded->second.result.data(), transfer.result.size());
}

}  // namespace gradwire::testing
