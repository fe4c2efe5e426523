#ifndef GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_BACKEND_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/backends/backend.h"
#include "worker/backends/gloo/engine.h"
#include "worker/backends/gloo/gloo_rendezvous.h"
#include "worker/backends/transfer.h"

namespace gradwire {

// c10d's ProcessGroupGloo, for comparison: the same worker and the same overlap,
// another engine. Its ring adds in ring order: the same bits on every rank, near
// the fold. Peers connect with each other on the address that the worker
// advertises, on ports of gloo's own, and find each other at the coordinator.
//
//   trainer ── queue ──► issue thread ── in the order handed in ──► engine's threads
//                          │ deadlines                               × 1/W, done
//   contact thread ────────┘ connects; then tells the other ranks, at most ten
//                            times a second, how many buckets were handed in
//
// ProcessGroupGloo knows neither deadlines nor who is missing: a deadline that
// passes is noticed here, the counts of the others say who is behind, and the
// engine's operations are ended before `done` runs.
class GlooBackend : public Backend {
 public:
  GlooBackend(const std::string& coordinator, std::unique_ptr<GlooEngine> engine);
  ~GlooBackend() override;

  // FailedPrecondition if the address in the view is not one of this host's.
  absl::Status OnView(const View& view, std::vector<BucketSpec> buckets) override;
  void AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                      absl::Time deadline, Done done) override;
  void BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                      Done done) override;
  void Cancel(absl::Status reason) override;
  // Nothing is left to do: gloo sends nothing that its receiver has not asked for.
  absl::Status Finish(absl::Time deadline) override;
  // As gloo's algorithms have it, for it does not count.
  TransferTotals totals() const override;
  absl::optional<Rank> suspect() const override;

 private:
  using Sequence = uint64_t;  // of transfers, over the whole run
  // What the issue thread does next.
  struct Work {
    enum { kIssue, kExplainDelay, kEnd } kind;
    Sequence sequence = 0;
    std::string name;      // kExplainDelay: of the transfer, "step 3, bucket 1"
    absl::Status failure;  // kIssue: end the transfer with it if it is not OK
  };

  void Submit(Transfer transfer);
  void IssueLoop();
  Work NextWork();
  // The transfer with the earliest deadline; InfiniteFuture if there is none.
  std::pair<absl::Time, Sequence> MostUrgent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Issue(Sequence sequence);
  void OnEngineDone(Sequence sequence, const absl::Status& status);
  // Scales or leaves alone, counts, and calls `done`.
  void Complete(Sequence sequence, const absl::Status& status);
  void Count(const Transfer& transfer);
  std::string RankNames(const std::vector<int>& ranks) const;
  absl::Status DelayOf(const Work& late);
  // Those whose connection is broken, less those who only closed it because of another.
  std::vector<int> LostPeers();
  void OnBreak(Sequence sequence, const absl::Status& status);
  // The first failure counts; ends the engine's operations.
  void Fail(const absl::Status& status, absl::optional<Rank> suspect);
  absl::Status failure() const;

  void ContactLoop();
  absl::Status Connect();
  // Waits for buckets that the other ranks have not heard of; false: the end.
  bool WaitForNews(Sequence* told);

  GlooRendezvous rendezvous_;
  View view_;                        // constant after OnView
  std::vector<BucketSpec> buckets_;  // constant after OnView
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_received_{0};

  mutable Mutex mutex_;
  CondVar changed_;  // what the issue thread waits for
  CondVar handed_;   // what the contact thread waits for: news, or a failure
  CondVar failed_;   // between two messages it is woken by a failure only
  std::map<Sequence, Transfer> transfers_ ABSL_GUARDED_BY(mutex_);  // until `done`
  Sequence handed_in_ ABSL_GUARDED_BY(mutex_) = 0;                  // how many
  Sequence issued_ ABSL_GUARDED_BY(mutex_) = 0;                     // how many
  bool bound_ ABSL_GUARDED_BY(mutex_) = false;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Rank> suspect_ ABSL_GUARDED_BY(mutex_);  // behind failure_
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;          // destructor

  // The engine's threads use all of the above.
  std::unique_ptr<GlooEngine> engine_;
  std::thread contact_thread_;
  std::thread issue_thread_;
};

//   InvalidArgument     the wire is not float32
//   FailedPrecondition  the engine cannot be loaded
absl::StatusOr<std::unique_ptr<Backend>> MakeGlooBackend(const BackendOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_BACKEND_H_
