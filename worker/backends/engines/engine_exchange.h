#ifndef GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_EXCHANGE_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/fold/blocks.h"
#include "common/wire/view.h"
#include "worker/backends/backend.h"
#include "worker/backends/engines/engine.h"
#include "worker/backends/engines/engine_rendezvous.h"
#include "worker/backends/exchange.h"
#include "worker/backends/transfer_table.h"

namespace gradwire {

// An exchange over a CollectiveEngine, for comparison: the same worker and the same overlap. The
// engine adds in its own order: the same bits on every rank, near the fold. If rank 0 gathers, the
// result is the fold. Peers find each other at the coordinator, or by means of the engine's own.
//
//   trainer ── queue ──► issue thread ── in the order expected ──► engine's threads
//                                                                    × 1/W, done
//   contact thread: connects; then tells the other ranks, at most ten
//                   times a second, how many buckets were contributed
//
// An engine has no deadlines and does not know which rank is missing. The table notices a passed
// deadline, the other ranks' counts show which rank is late, and the engine's operations are
// ended before `done` runs.
class EngineExchange : public Exchange {
 public:
  // `name`: of the back end, for messages.
  EngineExchange(std::string name, const View& view, const BackendOptions& options,
                 std::unique_ptr<CollectiveEngine> engine);
  ~EngineExchange() override;

  // InvalidArgument if a worker carries several ranks; FailedPrecondition if the address in the
  // view is not an address of this host. Call it once, first.
  absl::Status Start();

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override { table_.Fail(reason, absl::nullopt); }
  absl::Status Finish(absl::Time deadline) override;
  // Computed for a ring and binomial trees, because engines do not count.
  TransferTotals totals() const override { return {traffic_.sent, traffic_.received}; }
  absl::optional<Suspect> suspect() const override { return table_.suspect(); }

 private:
  using Sequence = uint64_t;  // of transfers, in the order expected
  struct EngineTransfer : Transfer {
    using Transfer::Transfer;
    Sequence sequence = 0;
    absl::Span<const uint8_t> terms;  // empty: the result holds the input
    // At rank 0, if it gathers:
    std::vector<FoldRange> ranges;  // of the bucket
    std::vector<float> gathered;    // all ranks' terms, then the mean
  };

  // Returns the next transfer for the engine; null: the end.
  std::shared_ptr<EngineTransfer> NextToIssue();
  void IssueLoop();
  void Issue(const std::shared_ptr<EngineTransfer>& transfer);
  // Runs at rank 0, which folds. The gather has ended on return.
  void GatherAndScatter(EngineTransfer* transfer, const CollectiveEngine::Done& done);
  void OnEngineDone(const EngineTransfer& transfer, const absl::Status& status);
  void Count(const Transfer& transfer);
  void NoteReady(const std::shared_ptr<EngineTransfer>& transfer);

  std::string RankNames(const std::vector<int>& ranks) const;
  Lateness Explain(const Transfer& late);
  // Returns ranks whose connection is broken, without those that only closed it because of another.
  std::vector<int> LostPeers();
  void OnBreak(const Transfer& transfer, const absl::Status& status);
  void Stop(const absl::Status& reason);
  void Drain();

  void ContactLoop();
  absl::Status ConnectPeers();
  // Waits for buckets that the other ranks do not know of; returns false at the end.
  bool WaitForNews(Sequence* told);

  const std::string name_;
  const View view_;
  const int rank_;                         // of this worker; -1 if it carries several
  const bool gathers_;                     // instead of an all-reduce
  std::map<LayoutId, FoldBlocks> blocks_;  // if it gathers
  EngineRendezvous rendezvous_;
  Traffic traffic_;

  mutable Mutex mutex_;
  CondVar changed_;  // for the issue thread
  CondVar handed_;   // for the contact thread: news, or a failure
  CondVar failed_;   // a failure; the contact thread waits for it between two messages
  Sequence expected_ ABSL_GUARDED_BY(mutex_) = 0;   // how many
  Sequence handed_in_ ABSL_GUARDED_BY(mutex_) = 0;  // how many
  Sequence issued_ ABSL_GUARDED_BY(mutex_) = 0;     // how many
  // Contributed, but not given to the engine.
  std::map<Sequence, std::shared_ptr<EngineTransfer>> ready_ ABSL_GUARDED_BY(mutex_);
  int in_engine_ ABSL_GUARDED_BY(mutex_) = 0;  // operations
  bool bound_ ABSL_GUARDED_BY(mutex_) = false;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // after a failure

  // The engine's threads use all members above.
  std::unique_ptr<CollectiveEngine> engine_;
  std::thread contact_thread_;
  std::thread issue_thread_;
  TransferTable table_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_EXCHANGE_H_
