#ifndef GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_EXCHANGE_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/fold/blocks.h"
#include "common/wire/view.h"
#include "worker/backends/backend.h"
#include "worker/backends/exchange.h"
#include "worker/backends/gloo/engine.h"
#include "worker/backends/gloo/gloo_rendezvous.h"
#include "worker/backends/transfer_table.h"

namespace gradwire {

// c10d's ProcessGroupGloo, for comparison: the same worker and the same overlap,
// another engine. Its ring adds in an order of its own: the same bits on every rank, near
// the fold; gathered at rank 0 it is the fold. Peers connect with each other on the address that
// the worker advertises, on ports of gloo's own, and find each other at the coordinator.
//
//   trainer ── queue ──► issue thread ── in the order expected ──► engine's threads
//                                                                    × 1/W, done
//   contact thread: connects; then tells the other ranks, at most ten
//                   times a second, how many buckets were contributed
//
// ProcessGroupGloo knows neither deadlines nor who is missing: a deadline that
// passes is noticed by the table, the counts of the others say who is behind, and the
// engine's operations are ended before `done` runs.
class GlooExchange : public Exchange {
 public:
  GlooExchange(const View& view, const BackendOptions& options, std::unique_ptr<GlooEngine> engine);
  ~GlooExchange() override;

  // InvalidArgument if a worker carries several ranks. FailedPrecondition if the address
  // in the view is not one of this host's. Call once, first.
  absl::Status Start();

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override { table_.Fail(reason, absl::nullopt); }
  // Nothing is left to do: gloo sends nothing that its receiver has not asked for.
  absl::Status Finish(absl::Time) override { return table_.failure(); }
  // As gloo's algorithms have it, for it does not count.
  TransferTotals totals() const override { return {traffic_.sent, traffic_.received}; }
  absl::optional<Suspect> suspect() const override { return table_.suspect(); }

 private:
  using Sequence = uint64_t;  // of transfers, in the order expected
  struct GlooTransfer : Transfer {
    using Transfer::Transfer;
    Sequence sequence = 0;
    absl::Span<const uint8_t> terms;  // empty: the result has what goes in
    // At rank 0, if it gathers:
    std::vector<FoldRange> ranges;  // of the bucket
    std::vector<float> gathered;    // all ranks' terms, then the mean
  };

  // The next transfer to give to the engine; null: the end.
  std::shared_ptr<GlooTransfer> NextToIssue();
  void IssueLoop();
  void Issue(const std::shared_ptr<GlooTransfer>& transfer);
  // At rank 0, which folds. The gather is over when it returns.
  void GatherAndScatter(GlooTransfer* transfer, const GlooEngine::Done& done);
  void OnEngineDone(const GlooTransfer& transfer, const absl::Status& status);
  void Count(const Transfer& transfer);
  void NoteReady(const std::shared_ptr<GlooTransfer>& transfer);

  std::string RankNames(const std::vector<int>& ranks) const;
  Lateness Explain(const Transfer& late);
  // Those whose connection is broken, less those who only closed it because of another.
  std::vector<int> LostPeers();
  void OnBreak(const Transfer& transfer, const absl::Status& status);
  void Stop(const absl::Status& reason);
  void Drain();

  void ContactLoop();
  absl::Status ConnectPeers();
  // Waits for buckets that the other ranks have not heard of; false: the end.
  bool WaitForNews(Sequence* told);

  const View view_;
  const int rank_;                         // of this worker; -1 if it carries several
  const bool gathers_;                     // in place of an all-reduce
  std::map<LayoutId, FoldBlocks> blocks_;  // if it gathers
  GlooRendezvous rendezvous_;
  Traffic traffic_;

  mutable Mutex mutex_;
  CondVar changed_;  // what the issue thread waits for
  CondVar handed_;   // what the contact thread waits for: news, or a failure
  CondVar failed_;   // between two messages it is woken by a failure only
  Sequence expected_ ABSL_GUARDED_BY(mutex_) = 0;   // how many
  Sequence handed_in_ ABSL_GUARDED_BY(mutex_) = 0;  // how many
  Sequence issued_ ABSL_GUARDED_BY(mutex_) = 0;     // how many
  // Handed in and not given to the engine.
  std::map<Sequence, std::shared_ptr<GlooTransfer>> ready_ ABSL_GUARDED_BY(mutex_);
  int in_engine_ ABSL_GUARDED_BY(mutex_) = 0;  // operations
  bool bound_ ABSL_GUARDED_BY(mutex_) = false;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // after a failure

  // The engine's threads use all of the above.
  std::unique_ptr<GlooEngine> engine_;
  std::thread contact_thread_;
  std::thread issue_thread_;
  TransferTable table_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_EXCHANGE_H_
