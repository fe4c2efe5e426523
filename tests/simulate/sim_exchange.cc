#include "tests/simulate/sim_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/judge.h"

namespace gradwire::simulate {

SimExchange::SimExchange(Scene* scene, const View& view, Process* own, Site* own_site,
                         std::vector<SimEndpoint> endpoints, OnMean on_mean)
    : scene_(scene),
      view_(view),
      own_(own),
      own_site_(own_site),
      endpoints_(std::move(endpoints)),
      on_mean_(std::move(on_mean)),
      table_({[](const Transfer&) { return absl::OkStatus(); }, [](const absl::Status&) {}, [] {}},
             view.first_step) {
  for (const SimEndpoint& endpoint : endpoints_) {
    owners_ += static_cast<int>(endpoint.shares.size());
  }
  endpoint_of_share_.resize(owners_);
  lanes_.resize(endpoints_.size());
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    for (const int share : endpoints_[i].shares) endpoint_of_share_[share] = i;
    MakeLanes(i);
  }
}

SimExchange::~SimExchange() {
  Fail(absl::CancelledError("the exchange is over"), absl::nullopt);
  table_.Close();
}

void SimExchange::MakeLanes(size_t endpoint) {
  const SimEndpoint& to = endpoints_[endpoint];
  const bool is_local = to.worker == view_.self;
  const int lanes = is_local ? 1 : scene_->setup.connections;
  for (int i = 0; i < lanes; ++i) {
    lanes_[endpoint].push_back({to.site, std::make_unique<Pipe>(scene_, to.process),
                                std::make_unique<Pipe>(scene_, own_), nullptr, nullptr});
  }
  if (is_local) own_site_->Serve(view_, Shard{owners_, to.shares});
}

void SimExchange::Start() {
  for (size_t endpoint = 0; endpoint < lanes_.size(); ++endpoint) {
    for (size_t i = 0; i < lanes_[endpoint].size(); ++i) {
      Lane& lane = lanes_[endpoint][i];
      lane.sender = MakeSender(endpoint, i);
      lane.reader = MakeReader(endpoint, i);
      lane.up->Send([site = lane.site, reader = lane.reader] { site->OnReader(reader); });
    }
  }
}

void SimExchange::SendBack(size_t endpoint, size_t lane, std::function<void(SimExchange*)> what) {
  lanes_[endpoint][lane].down->Send([weak = weak_from_this(), what = std::move(what)] {
    if (const auto self = weak.lock()) what(self.get());
  });
}

std::shared_ptr<Site::Sender> SimExchange::MakeSender(size_t endpoint, size_t lane) {
  auto sender = std::make_shared<Site::Sender>();
  sender->who = view_.self;
  sender->on_end = [weak = weak_from_this(), endpoint, lane](const absl::Status& status) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->SendBack(endpoint, lane,
                   [=](SimExchange* exchange) { exchange->OnLaneEnd(endpoint, status); });
  };
  return sender;
}

std::shared_ptr<Site::Reader> SimExchange::MakeReader(size_t endpoint, size_t lane) {
  auto reader = std::make_shared<Site::Reader>();
  reader->run_id = view_.run_id;
  reader->epoch = view_.epoch;
  reader->generation = view_.generation;
  reader->cursor.reader = view_.self;
  reader->lane = lane;
  reader->lanes = lanes_[endpoint].size();
  reader->on_mean = [weak = weak_from_this(), endpoint, lane](const Mean& mean) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const absl::Span<const uint8_t> bytes(mean.chunk->data.get(), mean.chunk->bytes);
    const Chunk chunk{mean.header, {bytes}, mean.chunk};
    self->lanes_[endpoint][lane].down->Send(
        [weak, on_mean = self->on_mean_, chunk] { on_mean(weak, chunk); });
  };
  reader->on_end = lanes_[endpoint][lane].sender->on_end;
  return reader;
}

void SimExchange::OnLaneEnd(size_t endpoint, const absl::Status& status) {
  // A peer that goes on in another view ends its part of this one.
  if (absl::IsAborted(status) && scene_->IsPlanted(Plant::kTransfersNotEnded)) return;
  Fail(status, absl::IsUnavailable(status) ? endpoints_[endpoint].worker : absl::nullopt);
}

void SimExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  layouts_[layout] = buckets;
  table_.AddLayout(layout, buckets);
  if (own_site_ != nullptr) own_site_->AddLayout(layout, buckets);
}

void SimExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time /*deadline*/,
                         Done done) {
  const BucketSpec& spec = table_.SpecOf(key);
  const Grid grid(key.bucket, spec.bytes, view_.chunk_bytes, owners_,
                  Grid::AlignmentOf(spec.dtype));
  WatchStep(key.step);
  ++under_way_;
  const auto counted = [this, done = std::move(done)](const absl::Status& status) {
    --under_way_;
    ++there_;
    done(status);
  };
  Transfer transfer(key, spec, result, absl::InfiniteFuture(), counted);
  if (!table_.Add(std::make_shared<FoldTransfer>(std::move(transfer), grid))) {
    return counted(table_.failure());
  }
  const auto early = early_.extract(key);
  if (early.empty()) return;
  for (const Chunk& mean : early.mapped()) Take(mean, mean.header.generation);
}

// Once for each step: it may not take for ever.
void SimExchange::WatchStep(Step step) {
  if (watched_ == step) return;
  watched_ = step;
  scene_->events.After(scene_->setup.step_timeout, [weak = weak_from_this(), step] {
    const auto self = weak.lock();
    if (self == nullptr || self->under_way_ == 0 || self->watched_ != step) return;
    self->Fail(absl::DeadlineExceededError(absl::StrCat("step ", step.value())), absl::nullopt);
  });
}

ChunkHeader SimExchange::HeaderOf(const FoldTransfer& transfer, size_t piece, Rank rank) const {
  ChunkHeader header;
  header.run_id = view_.run_id;
  header.epoch = view_.epoch;
  header.generation = view_.generation;
  header.layout = transfer.key.layout;
  header.step = transfer.key.step;
  header.rank = rank;
  header.bucket = transfer.key.bucket;
  header.offset = transfer.grid.Offset(piece);
  header.total = transfer.spec.bytes;
  header.dtype = transfer.spec.dtype;
  return header;
}

void SimExchange::Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  const auto transfer = std::static_pointer_cast<FoldTransfer>(table_.Find(key));
  if (transfer == nullptr || failed()) return;
  for (size_t piece = 0; piece < transfer->grid.pieces(); ++piece) {
    Chunk chunk;
    chunk.header = HeaderOf(*transfer, piece, rank);
    const auto bytes = terms.subspan(chunk.header.offset, transfer->grid.Bytes(piece));
    // As it is when it is contributed.
    const auto copy = std::make_shared<const std::vector<uint8_t>>(bytes.begin(), bytes.end());
    chunk.payload = {{copy->data(), copy->size()}};
    chunk.owner = copy;
    chunk.header.checksum = Checksum(chunk.payload);
    scene_->checks.OnTerm(chunk.header);
    auto& lanes = lanes_[endpoint_of_share_[transfer->grid.Owner(piece)]];
    Send(&lanes[transfer->grid.NumberInShard(piece) % lanes.size()], chunk);
  }
}

// Sending a chunk again is harmless.
void SimExchange::Send(Lane* lane, const Chunk& term) {
  const int times = scene_->setup.duplicates && scene_->random.OneIn(16) ? 2 : 1;
  for (int i = 0; i < times; ++i) {
    lane->up->Send(
        [site = lane->site, sender = lane->sender, term] { site->OnChunk(sender, term); });
  }
}

absl::Status SimExchange::Check(const Chunk& mean) const {
  const ChunkHeader& header = mean.header;
  const absl::StatusOr<Verdict> verdict =
      JudgeHeader(header, CoveredBytes(mean),
                  {view_.run_id, view_.epoch, view_.generation, header.step, view_.world_size,
                   layouts_.at(header.layout)},
                  absl::nullopt);
  if (!verdict.ok()) return verdict.status();
  if (*verdict != Verdict::kAccept) return absl::CancelledError("of an earlier view");
  return absl::OkStatus();
}

void SimExchange::Take(const Chunk& mean, Generation made_in) {
  if (failed()) return;
  absl::Status status = Check(mean);
  if (absl::IsCancelled(status)) return;
  const BucketKey key{mean.header.layout, mean.header.step, mean.header.bucket};
  const auto transfer = std::static_pointer_cast<FoldTransfer>(table_.Find(key));
  if (status.ok() && transfer == nullptr) {
    status = table_.CheckStep(key.layout, key.step);
    if (status.ok()) return early_[key].push_back(mean);
  }
  if (!status.ok()) return Fail(status, absl::nullopt);
  const auto piece = transfer->grid.Find(mean.header.offset, CoveredBytes(mean));
  if (!piece.has_value() || transfer->received[*piece] != 0) {
    return Fail(absl::InternalError(absl::StrCat(ToString(mean.header), " came twice")),
                absl::nullopt);
  }
  scene_->checks.OnMeanTaken(view_.self, made_in, view_.generation);
  CopyTo(mean.payload, transfer->result.data() + mean.header.offset);
  transfer->received[*piece] = 1;
  if (--transfer->pieces_left == 0) table_.Complete(key);
}

// What the keeper of the table does in a thread of its own is done at once.
void SimExchange::Fail(const absl::Status& status, absl::optional<Incarnation> suspect) {
  if (failed()) return;
  scene_->journal.Say("worker ", view_.self.value(), " ends its exchange of generation ",
                      view_.generation.value(), ": ", status.ToString());
  table_.Fail(status, suspect);
  if (own_site_ != nullptr) own_site_->Abort(EndForPeers(status));
  for (auto& lanes : lanes_) {
    for (Lane& lane : lanes) {
      if (lane.sender != nullptr) lane.sender->ended |= scene_->random.OneIn(2);
    }
  }
  for (const auto& transfer : table_.All()) transfer->done(status);
}

void SimExchange::Break(int peer) {
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    if (endpoints_[i].peer != peer || endpoints_[i].worker == view_.self) continue;
    OnLaneEnd(i, absl::UnavailableError(absl::StrCat("the connection with ", peer, " broke")));
  }
}

void SimExchange::Hold(int peer, absl::Time until) {
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    if (endpoints_[i].peer != peer || endpoints_[i].worker == view_.self) continue;
    for (Lane& lane : lanes_[i]) {
      lane.up->Hold(until);
      lane.down->Hold(until);
    }
  }
}

void SimExchange::Slow(absl::Duration by) {
  for (auto& lanes : lanes_) {
    for (Lane& lane : lanes) lane.up->Slow(by);
  }
}

void SimExchange::Cut() {
  for (auto& lanes : lanes_) {
    for (Lane& lane : lanes) lane.up->Cut();
  }
}

}  // namespace gradwire::simulate
