#include "worker/backends/fold/aggregation_backend.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace gradwire {

AggregationBackend::AggregationBackend(const BackendOptions& options, EndpointsOf endpoints_of,
                                       bool serves)
    : options_(options), endpoints_of_(std::move(endpoints_of)), overflow_(options.wire) {
  aggregator_.set_on_fold(options.on_span);
  if (!serves) return;
  service_ = std::make_unique<AggregationService>(
      &aggregator_, AggregationObserver{[this](uint64_t bytes) { OnReceived(bytes); },
                                        [this](uint64_t bytes) { OnSent(bytes); }, nullptr});
}

AggregationBackend::~AggregationBackend() {
  Cancel(absl::CancelledError("the back end is shutting down"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (keeper_.joinable()) keeper_.join();
}

absl::Status AggregationBackend::OnView(const View& view, std::vector<BucketSpec> buckets) {
  {
    MutexLock lock(&mutex_);
    context_ = {this, view, WireSpecs(std::move(buckets), options_.wire)};
  }
  if (absl::Status made = MakeLanes(); !made.ok()) return made;
  absl::Status started = StartLanes();
  keeper_ = std::thread([this] { KeeperLoop(); });
  return started;
}

absl::Status AggregationBackend::MakeLanes() {
  const std::vector<Endpoint> endpoints = endpoints_of_(context_.view);
  owners_ = static_cast<int>(endpoints.size());
  MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  for (int owner = 0; owner < owners_; ++owner) {
    lanes_.emplace_back();
    if (endpoints[owner].worker == context_.view.rank) {
      aggregator_.Configure(context_.view, context_.buckets, {owners_, owner});
      lanes_.back().push_back(MakeLocalLane(context_, &aggregator_));
      continue;
    }
    for (int lane = 0; lane < options_.connections; ++lane) {
      lanes_.back().push_back(
          MakeRemoteLane(context_, endpoints[owner], lane, options_.connections));
    }
  }
  return absl::OkStatus();
}

absl::Status AggregationBackend::StartLanes() {
  for (const auto& connections : lanes_) {
    for (const auto& lane : connections) {
      absl::Status connected = lane->Connect([this] { return failure(); });
      if (!connected.ok()) return connected;
    }
  }
  for (const auto& connections : lanes_) {
    for (const auto& lane : connections) lane->Start();
  }
  return absl::OkStatus();
}

absl::Status AggregationBackend::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

void AggregationBackend::AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms,
                                        absl::Span<float> mean, absl::Time deadline, Done done) {
  Submit(MakeReduce(key, terms, mean, deadline, std::move(done)));
}

void AggregationBackend::BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes,
                                        absl::Time deadline, Done done) {
  Submit(MakeBroadcast(key, bytes, deadline, std::move(done)));
}

void AggregationBackend::Submit(Transfer transfer) {
  const Bucket bucket = transfer.key.bucket;
  const Grid grid(bucket, context_.buckets[bucket.value()].bytes, context_.view.chunk_bytes,
                  owners_);
  auto exchange = std::make_shared<Exchange>(std::move(transfer), grid);
  const ReduceKey key = exchange->transfer.key;
  {
    MutexLock lock(&mutex_);
    open_step_ = std::max(open_step_, key.step);
    exchanges_[{key.step.value(), key.bucket.value()}] = exchange;
    changed_.NotifyAll();
    if (!failure_.ok()) return;  // the keeper ends it
  }
  PushPieces(exchange);
}

void AggregationBackend::PushPieces(const std::shared_ptr<Exchange>& exchange) {
  const bool is_bytes = exchange->transfer.spec.dtype == v1::DTYPE_BYTES;
  if (is_bytes && context_.view.rank != Rank(0)) return;
  const Grid& grid = exchange->grid;
  // Each rank begins with another aggregator, so that none gets all at once.
  const size_t turn = context_.view.rank.value() % owners_;
  for (size_t i = 0; i < grid.pieces(); ++i) {
    const size_t round = i / owners_ * owners_;
    const size_t in_round = std::min<size_t>(owners_, grid.pieces() - round);
    const size_t piece = round + (i - round + turn) % in_round;
    const auto& connections = lanes_[grid.Owner(piece)];
    connections[grid.NumberInShare(piece) % connections.size()]->Push({exchange, piece});
  }
}

absl::StatusOr<std::shared_ptr<Exchange>> AggregationBackend::WaitFor(Step step, Bucket bucket) {
  MutexLock lock(&mutex_);
  while (failure_.ok()) {
    const auto found = exchanges_.find({step.value(), bucket.value()});
    if (found != exchanges_.end()) return found->second;
    // Rank 0's bytes may be here before this rank has handed in the bucket.
    if (step < open_step_ || step.value() > open_step_.value() + 1) {
      return absl::OutOfRangeError(absl::StrCat("mean of step ", step.value(),
                                                ", expected the open step ", open_step_.value()));
    }
    changed_.Wait(&mutex_);
  }
  return std::shared_ptr<Exchange>();
}

void AggregationBackend::OnMean(const Piece& piece) {
  if (--piece.exchange->pieces_left > 0) return;
  const Transfer& transfer = piece.exchange->transfer;
  {
    MutexLock lock(&mutex_);
    if (exchanges_.erase({transfer.key.step.value(), transfer.key.bucket.value()}) == 0) return;
  }
  // The aggregators have all of our terms, so the memory is on its way back.
  transfer.done(piece.exchange->lender.Reclaim(absl::OkStatus()));
}

void AggregationBackend::OnOverflow(Step step) { overflow_.Note(step, context_.view.rank); }

void AggregationBackend::OnFailure(absl::Status status, absl::optional<Rank> suspect) {
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) {
      failure_ = status;
      suspect_ = suspect;
    }
    changed_.NotifyAll();
    for (const auto& connections : lanes_) {
      for (const auto& lane : connections) lane->Cancel();
    }
  }
  aggregator_.Abort(std::move(status));
}

void AggregationBackend::Cancel(absl::Status reason) {
  OnFailure(std::move(reason), absl::nullopt);
}

absl::optional<Rank> AggregationBackend::suspect() const {
  MutexLock lock(&mutex_);
  return suspect_;
}

std::shared_ptr<Exchange> AggregationBackend::WaitForDeadline() {
  MutexLock lock(&mutex_);
  while (failure_.ok() && !closing_) {
    std::shared_ptr<Exchange> first;
    for (const auto& entry : exchanges_) {
      if (first && entry.second->transfer.deadline >= first->transfer.deadline) continue;
      first = entry.second;
    }
    const absl::Time deadline = first ? first->transfer.deadline : absl::InfiniteFuture();
    if (deadline <= absl::Now()) return first;
    changed_.WaitWithDeadline(&mutex_, deadline);
  }
  return nullptr;
}

absl::Status AggregationBackend::LateStatus(const Exchange& exchange) {
  const ReduceKey& key = exchange.transfer.key;
  std::set<int> missing;
  std::vector<std::string> silent;
  for (const auto& connections : lanes_) {
    absl::StatusOr<std::vector<Rank>> ranks = connections.front()->Missing(key.step);
    if (!ranks.ok()) silent.push_back(std::string(ranks.status().message()));
    for (Rank rank : ranks.ok() ? *ranks : std::vector<Rank>()) missing.insert(rank.value());
  }
  std::string what = absl::StrCat("step ", key.step.value(), ", bucket ", key.bucket.value(), ": ");
  if (!missing.empty()) {
    absl::StrAppend(&what, "gradients of rank ", absl::StrJoin(missing, ", "), " are missing");
  } else if (silent.empty()) {
    absl::StrAppend(&what, "the mean did not come in time");
  }
  return absl::DeadlineExceededError(absl::StrCat(
      what, missing.empty() || silent.empty() ? "" : "; ", absl::StrJoin(silent, "; ")));
}

void AggregationBackend::KeeperLoop() {
  while (std::shared_ptr<Exchange> late = WaitForDeadline()) {
    OnFailure(LateStatus(*late), absl::nullopt);
  }
  EndAll();
}

// After a failure: once no lane uses the buckets, all of them end, and those to come.
void AggregationBackend::EndAll() {
  for (const auto& connections : lanes_) {
    for (const auto& lane : connections) lane->Join();
  }
  while (true) {
    std::map<Key, std::shared_ptr<Exchange>> ended;
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      while (exchanges_.empty() && !closing_) changed_.Wait(&mutex_);
      if (exchanges_.empty()) return;
      ended.swap(exchanges_);
      status = failure_;
    }
    for (const auto& entry : ended) {
      entry.second->transfer.done(entry.second->lender.Reclaim(status));
    }
  }
}

absl::Status AggregationBackend::Finish(absl::Time deadline) {
  for (const auto& connections : lanes_) {
    for (const auto& lane : connections) lane->Finish();
  }
  if (absl::Status status = failure(); !status.ok()) return status;
  // Peers may still want means of this worker's share.
  if (service_ == nullptr || service_->WaitUntilIdle(deadline)) return failure();
  return absl::DeadlineExceededError("other workers are still busy with the last step");
}

TransferTotals AggregationBackend::totals() const {
  return {bytes_sent_, bytes_received_, overflow_.steps()};
}

}  // namespace gradwire
