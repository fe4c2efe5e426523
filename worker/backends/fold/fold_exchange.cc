#include "worker/backends/fold/fold_exchange.h"

#include <future>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/backends/fold/call_slots.h"

namespace gradwire {

FoldExchange::FoldExchange(const BackendOptions& options, const View& view,
                           std::vector<Endpoint> endpoints, AggregationService* service,
                           Compressors* compressors, Traffic* traffic)
    : options_(options),
      context_{this, view, compressors, options.security, CallMemoryOf(options)},
      service_(service),
      traffic_(traffic),
      sent_before_(traffic->sent),
      received_before_(traffic->received),
      overflow_(options.wire),
      table_({[this](const Transfer& late) { return Explain(late); },
              [this](const absl::Status& failure) {
                ForEachLane([](Lane* lane) { lane->Cancel(); });
                if (aggregator_ != nullptr) aggregator_->Abort(EndForPeers(failure));
              },
              [this] { ForEachLane([](Lane* lane) { lane->Join(); }); }},
             view.first_step) {
  MakeLanes(endpoints);
}

FoldExchange::~FoldExchange() { table_.Close(); }

void FoldExchange::ForEachLane(const std::function<void(Lane*)>& work) const {
  for (const auto& connections : lanes_) {
    for (const auto& lane : connections) work(lane.get());
  }
}

void FoldExchange::MakeOwnAggregator(const Endpoint& endpoint) {
  aggregator_ =
      std::make_shared<Aggregator>(context_.view, Shard{owners_, endpoint.shares},
                                   AggregatorHooks{/*on_step=*/nullptr, options_.on_span});
  service_->Serve(aggregator_);
}

void FoldExchange::MakeLanes(const std::vector<Endpoint>& endpoints) {
  for (const Endpoint& endpoint : endpoints) owners_ += static_cast<int>(endpoint.shares.size());
  endpoint_of_share_.resize(owners_);
  for (const Endpoint& endpoint : endpoints) {
    for (const int share : endpoint.shares) endpoint_of_share_[share] = lanes_.size();
    lanes_.emplace_back();
    summing_.push_back(endpoint.worker);
    if (endpoint.worker == context_.view.self) {
      MakeOwnAggregator(endpoint);
      lanes_.back().push_back(MakeLocalLane(context_, aggregator_.get()));
      continue;
    }
    const bool by_bucket = options_.groups > 1;
    const int lanes = by_bucket ? options_.groups : options_.connections;
    for (int lane = 0; lane < lanes; ++lane) {
      lanes_.back().push_back(MakeRemoteLane(context_, endpoint, {lane, lanes, by_bucket}));
    }
  }
}

absl::Status FoldExchange::Start(const Backend::Ended& ended) {
  for (const auto& connections : lanes_) {
    for (const auto& lane : connections) {
      if (absl::Status connected = lane->Connect(ended); !connected.ok()) return connected;
    }
  }
  ForEachLane([](Lane* lane) { lane->Start(); });
  table_.Start();
  return absl::OkStatus();
}

void FoldExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  std::vector<BucketSpec> specs = WireSpecs(std::move(buckets), options_.wire);
  if (aggregator_ != nullptr) aggregator_->AddLayout(layout, specs);
  specs_[layout] = specs;
  table_.AddLayout(layout, std::move(specs));
}

void FoldExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                          Done done) {
  const BucketSpec& spec = table_.SpecOf(key);
  const Grid grid(key.bucket, spec.bytes, context_.view.chunk_bytes, owners_,
                  Grid::AlignmentOf(spec.dtype));
  const bool added = table_.Add(
      std::make_shared<FoldTransfer>(Transfer(key, spec, result, deadline, std::move(done)), grid));
  std::vector<std::function<void()>> early;
  {
    MutexLock lock(&mutex_);
    const auto found = early_.find(key);
    if (found == early_.end()) return;
    early = std::move(found->second);
    early_.erase(found);
  }
  for (const auto& take : early) {
    if (added) take();
  }
}

void FoldExchange::Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  const auto transfer = std::static_pointer_cast<FoldTransfer>(table_.Find(key));
  if (transfer == nullptr) return;  // it has failed
  const Grid& grid = transfer->grid;
  // The same order for all ranks: otherwise two ranks' windows could each wait for pieces that the
  // other window holds back.
  for (size_t piece = 0; piece < grid.pieces(); ++piece) {
    const auto& connections = lanes_[endpoint_of_share_[grid.Owner(piece)]];
    const size_t turn = options_.groups > 1 ? key.bucket.value() : grid.NumberInShard(piece);
    connections[turn % connections.size()]->Push({transfer, piece, rank, terms, rate_});
  }
}

absl::StatusOr<std::shared_ptr<FoldTransfer>> FoldExchange::FindOrKeep(
    const BucketKey& key, std::function<void()> later) {
  MutexLock lock(&mutex_);
  const auto found = std::static_pointer_cast<FoldTransfer>(table_.Find(key));
  if (found != nullptr || !table_.failure().ok()) return found;
  if (absl::Status step = table_.CheckStep(key.layout, key.step); !step.ok()) return step;
  early_[key].push_back(std::move(later));
  return found;
}

void FoldExchange::OnMean(const std::shared_ptr<FoldTransfer>& transfer) {
  // The aggregators have all of our terms, so the lent memory is returned soon.
  if (--transfer->pieces_left == 0) table_.Complete(transfer->key);
}

// Suspects are the carriers of the missing ranks, and aggregating workers that do not answer.
Lateness FoldExchange::Explain(const Transfer& late) const {
  std::set<int> missing;
  std::set<Incarnation> suspects;
  std::vector<std::string> silent;
  // All at once: those that do not answer cost a second together.
  std::vector<std::future<absl::StatusOr<std::vector<Rank>>>> answers;
  for (const auto& connections : lanes_) {
    answers.push_back(std::async(std::launch::async, [&lane = *connections.front(), &late] {
      return lane.Missing(late.key.layout, late.key.step);
    }));
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const auto ranks = answers[i].get();
    if (!ranks.ok()) {
      silent.push_back(std::string(ranks.status().message()));
      if (summing_[i].has_value()) suspects.insert(*summing_[i]);
      continue;
    }
    for (const Rank rank : *ranks) {
      missing.insert(rank.value());
      suspects.insert(context_.view.Carrier(rank).incarnation);
    }
  }
  suspects.erase(context_.view.self);
  std::string what = absl::StrCat(ToString(late.key), ": ");
  if (!missing.empty()) {
    absl::StrAppend(&what, "gradients of rank ", absl::StrJoin(missing, ", "), " are missing");
  } else if (silent.empty()) {
    absl::StrAppend(&what, "the mean did not arrive in time");
  }
  absl::StrAppend(&what, missing.empty() || silent.empty() ? "" : "; ",
                  absl::StrJoin(silent, "; "));
  return {absl::DeadlineExceededError(what), {suspects.begin(), suspects.end()}};
}

// No sum of this worker's shares is complete without its own terms. Those of other aggregators are
// not here.
std::vector<KeptValues> FoldExchange::Kept(LayoutId layout) {
  std::vector<KeptValues> kept;
  context_.compressors->AddKept(layout, specs_.at(layout), context_.view.OwnRanks(), &kept);
  if (aggregator_ == nullptr) return kept;
  for (const MeanResidual& mean : aggregator_->MeanResiduals(layout)) {
    kept.push_back(KeptOfMean(mean.bucket, mean.first, mean.values));
  }
  return kept;
}

absl::Status FoldExchange::Finish(absl::Time deadline) {
  bool acknowledged = true;
  ForEachLane([&](Lane* lane) { acknowledged &= lane->Finish(deadline); });
  if (absl::Status status = table_.failure(); !status.ok()) return status;
  if (!acknowledged) {
    return absl::DeadlineExceededError("an aggregator has not acknowledged all gradients in time");
  }
  // Peers may still need means of this worker's shares.
  if (service_ == nullptr || service_->WaitUntilIdle(deadline)) return table_.failure();
  return absl::DeadlineExceededError("other workers are still busy with the last step");
}

void FoldExchange::OnClocks(const ChunkClocks& clocks) {
  MutexLock lock(&mutex_);
  clocks_ = clocks;
}

void FoldExchange::OnCompressed(const CompressionTotals& more) {
  MutexLock lock(&mutex_);
  compressed_ += more;
}

TransferTotals FoldExchange::totals() const {
  TransferTotals totals{traffic_->sent - sent_before_, traffic_->received - received_before_,
                        overflow_.steps()};
  MutexLock lock(&mutex_);
  totals.clocks = clocks_;
  totals.compressed = compressed_;
  return totals;
}

}  // namespace gradwire
