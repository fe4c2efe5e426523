#ifndef GRADWIRE_TESTS_SIMULATE_SITE_H_
#define GRADWIRE_TESTS_SIMULATE_SITE_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "common/aggregation/aggregator.h"
#include "tests/simulate/scene.h"

namespace gradwire::simulate {

// Where terms are summed: the coordinator, or a worker for its share. What judges and sums is the
// shipped Aggregator, one for each view; what AggregationService does around it with threads and
// gRPC is modelled here: calls wait for their view, are bound to it, and end with an error.
class Site {
 public:
  // A Gather under way: what one worker sends on one connection in one view.
  struct Sender {
    Incarnation who;
    std::function<void(absl::Status)> on_end;  // with an error
    std::shared_ptr<Aggregator> aggregator;    // of the first chunk's view
    std::deque<Chunk> waiting;
    bool ended = false;
  };
  // A Scatter.
  struct Reader {
    RunId run_id;
    CoordinatorEpoch epoch;
    Generation generation;
    size_t lane = 0;
    size_t lanes = 1;
    std::function<void(const Mean&)> on_mean;
    std::function<void(absl::Status)> on_end;
    std::shared_ptr<Aggregator> aggregator;
    MeanCursor cursor;
    bool ended = false;
  };

  explicit Site(Scene* scene) : scene_(scene) {}

  // A view begins here; the aggregator of the one before was aborted. It has its layouts, or gets
  // them by AddLayout.
  void Serve(const View& view, const Shard& share);
  void AddLayout(LayoutId layout, const std::vector<BucketSpec>& buckets);
  void Abort(const absl::Status& reason);
  // The process is gone: nothing leaves any more.
  void Close();

  void OnChunk(const std::shared_ptr<Sender>& sender, Chunk chunk);
  void OnReader(std::shared_ptr<Reader> reader);

 private:
  // Of a term, whoever sends it and in which view.
  using Key = std::tuple<Generation, Step, Bucket, uint64_t>;

  bool IsToCome(Generation generation) const;
  void Pump();
  void TakeAll(Sender* sender);
  void Take(Sender* sender, Chunk chunk);
  void Falsify(Sender* sender, Chunk* chunk);
  void FalsifyRank(Chunk* chunk);
  void SendMeans();
  void SendMeans(Reader* reader);

  Scene* const scene_;
  View view_;
  std::shared_ptr<Aggregator> aggregator_;  // null: none yet
  bool has_layouts_ = false;
  bool folded_ = false;                           // since means were sent last
  std::vector<std::shared_ptr<Sender>> waiting_;  // for a view
  std::vector<std::shared_ptr<Reader>> readers_;
  std::map<Key, std::set<int>> ranks_seen_;  // for plants
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_SITE_H_
