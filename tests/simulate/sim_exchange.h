#ifndef GRADWIRE_TESTS_SIMULATE_SIM_EXCHANGE_H_
#define GRADWIRE_TESTS_SIMULATE_SIM_EXCHANGE_H_

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/simulate/pipe.h"
#include "tests/simulate/scene.h"
#include "tests/simulate/site.h"
#include "worker/backends/exchange.h"
#include "worker/backends/fold/chunk_queue.h"
#include "worker/backends/transfer_table.h"

namespace gradwire::simulate {

// Who sums which shares, and the way to there and back.
struct SimEndpoint {
  absl::optional<Incarnation> worker;  // none: the coordinator
  int peer = -1;                       // number of that worker
  std::vector<int> shares;
  Site* site = nullptr;
  Process* process = nullptr;
};

// The exchange of one worker in one view: as FoldExchange, but with pipes of virtual time in place
// of gRPC and threads. Shipped: what is exchanged (Reducer and BucketTracker call it), the grid,
// the table of transfers, and the verdicts on headers.
class SimExchange : public Exchange, public std::enable_shared_from_this<SimExchange> {
 public:
  // Brings a mean that came in to the worker, which knows its exchange.
  using OnMean = std::function<void(const std::weak_ptr<SimExchange>&, const Chunk&)>;

  SimExchange(Scene* scene, const View& view, Process* own, Site* own_site,
              std::vector<SimEndpoint> endpoints, OnMean on_mean);
  ~SimExchange() override;

  // Asks for means. Call once, first.
  void Start();

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override { Fail(reason, absl::nullopt); }
  absl::Status Finish(absl::Time) override { return table_.failure(); }
  TransferTotals totals() const override { return {}; }
  absl::optional<Suspect> suspect() const override { return table_.suspect(); }

  const View& view() const { return view_; }
  bool failed() const { return !table_.failure().ok(); }
  // Whether BucketTracker::Next would return without waiting.
  bool CanTell() const { return failed() || there_ > 0 || under_way_ == 0; }
  void OnTaken() { --there_; }

  // A mean that came in, which was made in a generation.
  void Take(const Chunk& mean, Generation made_in);
  // The streams with a peer (-1: the coordinator) broke, if there are any; or are silent for a
  // while; or all are slower.
  void Break(int peer);
  void Hold(int peer, absl::Time until);
  void Slow(absl::Duration by);
  // Nothing that is under way from here arrives.
  void Cut();

 private:
  struct Lane {
    Site* site = nullptr;
    std::unique_ptr<Pipe> up;
    std::unique_ptr<Pipe> down;
    std::shared_ptr<Site::Sender> sender;
    std::shared_ptr<Site::Reader> reader;
  };

  void MakeLanes(size_t endpoint);
  std::shared_ptr<Site::Sender> MakeSender(size_t endpoint, size_t lane);
  std::shared_ptr<Site::Reader> MakeReader(size_t endpoint, size_t lane);
  // Comes to this exchange, if it is still there, by the way back of a lane.
  void SendBack(size_t endpoint, size_t lane, std::function<void(SimExchange*)> what);
  ChunkHeader HeaderOf(const FoldTransfer& transfer, size_t piece, Rank rank) const;
  void Send(Lane* lane, const Chunk& term);
  void WatchStep(Step step);
  absl::Status Check(const Chunk& mean) const;
  void Fail(const absl::Status& status, absl::optional<Incarnation> suspect);
  void OnLaneEnd(size_t endpoint, const absl::Status& status);

  Scene* const scene_;
  const View view_;
  Process* const own_;
  Site* const own_site_;  // null: this worker sums nothing
  const std::vector<SimEndpoint> endpoints_;
  const OnMean on_mean_;
  int owners_ = 0;
  std::vector<size_t> endpoint_of_share_;
  std::vector<std::vector<Lane>> lanes_;  // by endpoint
  std::map<LayoutId, std::vector<BucketSpec>> layouts_;
  std::map<BucketKey, std::vector<Chunk>> early_;
  absl::optional<Step> watched_;
  TransferTable table_;
  int under_way_ = 0;
  int there_ = 0;  // and not taken by BucketTracker
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_SIM_EXCHANGE_H_
