#ifndef GRADWIRE_TESTS_WORKER_RUN_RECORDED_EXCHANGE_H_
#define GRADWIRE_TESTS_WORKER_RUN_RECORDED_EXCHANGE_H_

#include <map>
#include <string>
#include <vector>

#include "worker/backends/exchange.h"

namespace gradwire::testing {

// What went through an exchange: of each bucket what every rank put in, and the result.
struct Recording {
  struct Entry {
    std::map<int, std::string> terms;  // by rank, as bytes
    std::string result;
  };
  std::map<BucketKey, Entry> entries;
};

// Everything on the caller's thread; a transfer ends with its last contribution.
class RecordedExchange : public Exchange {
 public:
  void AddLayout(LayoutId, std::vector<BucketSpec> buckets) override { buckets_ = buckets; }
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time, Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override;
  absl::Status Finish(absl::Time) override { return absl::OkStatus(); }
  TransferTotals totals() const override { return {}; }

 protected:
  struct Transfer {
    absl::Span<uint8_t> result;
    std::map<int, std::string> terms;
    Done done;
  };
  bool IsBytes(const BucketKey& key) const { return IsBroadcast(buckets_[key.bucket.value()]); }

  // Whether all is there that this worker puts in.
  virtual bool Complete(const BucketKey& key, const Transfer& transfer) const = 0;
  // Writes the result.
  virtual void End(const BucketKey& key, const Transfer& transfer) = 0;

 private:
  void EndIfComplete(const BucketKey& key);

  std::vector<BucketSpec> buckets_;
  std::map<BucketKey, Transfer> under_way_;
};

// For the one worker of a run, which carries all its ranks: the fold, and a recording of it.
class FoldingExchange : public RecordedExchange {
 public:
  FoldingExchange(int world_size, Recording* recording)
      : world_size_(world_size), recording_(recording) {}

 private:
  bool Complete(const BucketKey& key, const Transfer& transfer) const override;
  void End(const BucketKey& key, const Transfer& transfer) override;

  const int world_size_;
  Recording* const recording_;
};

// For a worker that carries some ranks of a recorded run: fails the test where they put in
// anything else than they did there, and gives the results of then.
class ReplayingExchange : public RecordedExchange {
 public:
  ReplayingExchange(std::vector<Rank> ranks, const Recording* recording)
      : ranks_(std::move(ranks)), recording_(recording) {}

 private:
  bool Complete(const BucketKey& key, const Transfer& transfer) const override;
  void End(const BucketKey& key, const Transfer& transfer) override;

  const std::vector<Rank> ranks_;
  const Recording* const recording_;
};

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_WORKER_RUN_RECORDED_EXCHANGE_H_
