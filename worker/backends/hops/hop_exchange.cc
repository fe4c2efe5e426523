#include "worker/backends/hops/hop_exchange.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/wire/judge.h"
#include "worker/backends/memory/memory_budget.h"

namespace gradwire {
namespace {

// Copies the payload out of its slot, which the sender may then use again.
void LeaveSlot(Chunk* chunk) {
  auto copy = std::make_shared<std::vector<uint8_t>>(TotalBytes(chunk->payload));
  CopyTo(chunk->payload, copy->data());
  chunk->payload = {*copy};
  chunk->owner = std::move(copy);
}

}  // namespace

HopExchange::HopExchange(const Topology* topology, const View& view, const BackendOptions& options)
    : topology_(*topology),
      view_(view),
      ranks_(view.OwnRanks()),
      wire_(options.wire),
      security_(options.security),
      uses_slots_(options.slots),
      plans_(topology, view),
      overflow_(options.wire),
      groups_(options.groups),
      queues_(options.groups),
      table_({[this](const Transfer& late) { return Explain(late); },
              [this](const absl::Status&) { Stop(); }, [this] { Drain(); }},
             view.first_step) {}

HopExchange::~HopExchange() { table_.Close(); }

std::string HopExchange::NameOfNeighbour(Rank rank) const {
  return absl::StrCat("neighbor rank ", rank.value(), " (", view_.Carrier(rank).address, ")");
}

absl::Status HopExchange::Start(const Backend::Ended& ended) {
  for (const Edge& edge : LinksOf(topology_, Places(view_))) {
    if (!view_.Carries(Rank(edge.from)) || view_.Carries(Rank(edge.to))) continue;
    if (absl::Status connected = Connect(edge, ended); !connected.ok()) return connected;
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    groups_[group].sender = std::thread([this, group] { SenderLoop(static_cast<int>(group)); });
  }
  table_.Start();
  return absl::OkStatus();
}

absl::Status HopExchange::Connect(Edge edge, const Backend::Ended& ended) {
  const Rank to(edge.to);
  for (Group& group : groups_) {
    auto neighbour = NeighborSender::Connect(view_.Carrier(to).address, NameOfNeighbour(to),
                                             view_.self, ended, security_);
    if (!neighbour.ok()) {
      table_.Fail(neighbour.status(), view_.Carrier(to).incarnation);
      return neighbour.status();
    }
    Link& link = group.links[edge];
    link.neighbour = *std::move(neighbour);
    link.slots = MakeSlots(to);
  }
  return absl::OkStatus();
}

// A view whose workers all share memory is here only because its memory is beyond a limit.
std::unique_ptr<HopSlotWriter> HopExchange::MakeSlots(Rank to) {
  const Member& receiver = view_.Carrier(to);
  if (!uses_slots_ || view_.SharesMemory() || !view_.SharesMemoryWith(receiver)) return nullptr;
  const auto workers =
      std::count_if(view_.members.begin(), view_.members.end(),
                    [this](const Member& member) { return view_.SharesMemoryWith(member); });
  // Each worker of the ring has a link to its neighbor for its sums and one for means.
  const uint64_t all = 2 * workers * groups_.size() * HopSlots::kMemoryBytes;
  absl::Status status;
  for (const Member* member : {&view_.Carrier(ranks_[0]), &receiver}) {
    status.Update(CheckMemoryLimits(*member, HopSlots::kMemoryBytes, all));
  }
  if (status.ok()) {
    auto slots = HopSlotWriter::Make(view_, links_++);
    if (slots.ok()) return *std::move(slots);
    status = slots.status();
  }
  spdlog::warn("no shared memory for {}, which gets all through the network: {}",
               NameOfNeighbour(to), std::string(status.message()));
  return nullptr;
}

void HopExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  std::vector<BucketSpec> specs = WireSpecs(buckets, wire_);
  plans_.Add(layout, specs);
  for (size_t i = 0; i < specs.size(); ++i) {
    AddMemory(layout, Bucket(static_cast<int>(i)), specs[i], buckets[i].bytes);
  }
  table_.AddLayout(layout, std::move(specs));
}

void HopExchange::AddMemory(LayoutId layout, Bucket bucket, const BucketSpec& spec,
                            uint64_t result_bytes) {
  for (const Rank rank : ranks_) {
    const bool is_first = rank == ranks_[0];
    if (!is_first && topology_.shares_memory) return;
    Memory& memory = memory_[{layout, bucket, rank}];
    if (ElementBytes(spec.dtype) == 2) memory.half.resize(spec.bytes);
    if (!is_first) memory.result.resize(result_bytes);
  }
}

HopPosition HopExchange::MakePosition(const Transfer& transfer, Rank rank) {
  const Rank owner = topology_.shares_memory ? ranks_[0] : rank;
  Memory& memory = memory_.at({transfer.key.layout, transfer.key.bucket, owner});
  const absl::Span<uint8_t> result =
      memory.result.empty() ? transfer.result : absl::MakeSpan(memory.result);
  return HopPosition(&transfer, &plans_.Of(transfer.key), rank, view_.world_size, result,
                     memory.half.data());
}

void HopExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                         Done done) {
  auto transfer =
      std::make_shared<HopTransfer>(key, table_.SpecOf(key), result, deadline, std::move(done));
  for (const Rank rank : ranks_) transfer->positions.emplace(rank, MakePosition(*transfer, rank));
  absl::Status checked;
  bool is_over = false;
  {
    MutexLock lock(&mutex_);
    ++under_way_;
    const EarlyChunks& early = queues_[GroupOf(key.bucket)].early;
    for (auto& [rank, position] : transfer->positions) {
      for (size_t i = 0; i < position.to_receive.size(); ++i) {
        uint64_t& bytes = position.to_receive[i];
        bytes -= std::min(bytes, early.Bytes({key, rank, static_cast<int>(i)}));
      }
    }
    checked = CheckSources(*transfer);
    table_.Add(transfer);
    is_over = EndsNow(*transfer);
    changed_.NotifyAll();
  }
  if (!checked.ok()) table_.Fail(checked, absl::nullopt);
  if (is_over) table_.Complete(key);
}

absl::Status HopExchange::CheckSources(const HopTransfer& transfer) {
  const BucketKey& key = transfer.key;
  const absl::optional<Step> first = queues_[GroupOf(key.bucket)].early.FirstStep(key.layout);
  if (first.has_value() && *first < key.step) {
    return absl::InvalidArgumentError(absl::StrCat("a neighbor sent too many chunks of step ",
                                                   first->value(), " than there are"));
  }
  for (const auto& [source, state] : sources_) {
    if (!state.over || !Owes(source, transfer)) continue;
    return HasLeft(Rank(source.first.from));
  }
  return absl::OkStatus();
}

void HopExchange::Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  const auto transfer = std::static_pointer_cast<HopTransfer>(table_.Find(key));
  if (transfer == nullptr) return;  // it has failed
  HopPosition& position = transfer->positions.at(rank);
  if (position.SetTerms(terms)) overflow_.Note(key.step, rank);
  bool is_over = false;
  {
    MutexLock lock(&mutex_);
    position.has_terms = true;
    QueueTerms(transfer, position);
    is_over = EndsNow(*transfer);
    changed_.NotifyAll();
  }
  if (is_over) table_.Complete(key);
}

void HopExchange::QueueTerms(const std::shared_ptr<HopTransfer>& transfer,
                             const HopPosition& position) {
  const std::vector<RankPlan::Send>& sends = position.plan().sends;
  for (size_t i = 0; i < sends.size(); ++i) {
    if (!sends[i].of_terms) continue;
    for (const HopChunk& hop_chunk : position.HopChunksOf(sends[i].hop)) {
      Enqueue({transfer, position.rank(), static_cast<int>(i), &hop_chunk});
    }
  }
}

void HopExchange::Enqueue(Outgoing outgoing) {
  const Bucket bucket = outgoing.transfer->key.bucket;
  queues_[GroupOf(bucket)].outgoing[bucket].push_back(std::move(outgoing));
}

absl::Status HopExchange::OnChunk(StreamId stream, Chunk chunk) {
  const absl::StatusOr<Verdict> of_view =
      JudgeView(chunk.header, {view_.run_id, view_.epoch, view_.generation, {}, 0, {}});
  if (!of_view.ok()) return of_view.status();
  const std::vector<BucketSpec>* buckets = table_.WaitForLayout(chunk.header.layout);
  if (buckets == nullptr) return LetGo();
  const uint32_t slot = *of_view == Verdict::kAccept ? chunk.header.slot : 0;
  if (slot == 0) {
    const uint64_t bytes = TotalBytes(chunk.payload);
    absl::Status judged = Judge(stream, std::move(chunk), *buckets);
    if (judged.ok()) received_bytes_ += bytes;
    return judged;
  }
  std::shared_ptr<HopSlotReader> reader;
  if (absl::Status found = FindPayload(stream, &chunk, &reader); !found.ok()) return found;
  absl::Status judged = Judge(stream, std::move(chunk), *buckets);
  reader->Empty(slot);
  return judged;
}

absl::Status HopExchange::FindPayload(StreamId stream, Chunk* chunk,
                                      std::shared_ptr<HopSlotReader>* reader) {
  const ChunkHeader& header = chunk->header;
  const std::string name = absl::StrCat("chunk of ", ToString(header));
  if (header.rank.value() >= view_.world_size || view_.Carries(header.rank) ||
      !view_.SharesMemoryWith(view_.Carrier(header.rank)) || !chunk->payload.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": got slot ", header.slot, ", expected a payload, or a slot without one of a rank ",
        "on another worker of this host"));
  }
  {
    MutexLock lock(&mutex_);
    *reader = readers_[stream];
  }
  if (*reader == nullptr) {
    auto opened = HopSlotReader::Open(view_, view_.Carrier(header.rank), header.slot);
    if (!opened.ok()) return Annotate(opened.status(), name);
    *reader = *std::move(opened);
    MutexLock lock(&mutex_);
    readers_[stream] = *reader;
  }
  const auto payload = (*reader)->Get(header.slot, header.slot_bytes);
  if (!payload.ok()) return Annotate(payload.status(), name);
  chunk->payload = {*payload};
  return absl::OkStatus();
}

absl::Status HopExchange::Judge(StreamId stream, Chunk chunk,
                                const std::vector<BucketSpec>& buckets) {
  const absl::StatusOr<HopKey> key = plans_.Judge(chunk, buckets);
  if (!key.ok()) return key.status();
  absl::Status status = CheckStream(stream, chunk.header, *key);
  return status.ok() ? Accept(*key, std::move(chunk)) : status;
}

absl::Status HopExchange::CheckStream(StreamId stream, const ChunkHeader& header,
                                      const HopKey& key) {
  if (absl::Status step = table_.CheckStep(header.layout, header.step); !step.ok()) {
    return Annotate(step, absl::StrCat("chunk of ", ToString(header)));
  }
  const Source source{{header.rank.value(), key.receiver.value()}, GroupOf(header.bucket)};
  MutexLock lock(&mutex_);
  const auto [state, is_first] = sources_.try_emplace(source, SourceState{stream});
  if (state->second.stream == stream) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk of ", ToString(header), ": got it in a second stream, expected one stream per view"));
}

absl::Status HopExchange::Accept(const HopKey& key, Chunk chunk) {
  const absl::StatusOr<std::shared_ptr<HopTransfer>> transfer = FindOrKeep(key, &chunk);
  if (!transfer.ok()) return transfer.status();
  return *transfer == nullptr ? absl::OkStatus() : Take(*transfer, key, chunk);
}

absl::StatusOr<std::shared_ptr<HopExchange::HopTransfer>> HopExchange::FindOrKeep(const HopKey& key,
                                                                                  Chunk* chunk) {
  const uint64_t bytes = TotalBytes(chunk->payload);
  MutexLock lock(&mutex_);
  if (stopped_) return LetGo();
  EarlyChunks& early = queues_[GroupOf(key.bucket.bucket)].early;
  if (const auto found = std::static_pointer_cast<HopTransfer>(table_.Find(key.bucket))) {
    HopPosition& position = found->positions.at(key.receiver);
    uint64_t& to_receive = position.to_receive[key.receive];
    to_receive -= std::min(bytes, to_receive);
    if (!early.Holds(key) && position.CanTake(key.receive, chunk->header.offset)) {
      ++taking_;
      ++found->taking;
      return found;
    }
  }
  if (chunk->header.slot != 0) LeaveSlot(chunk);
  const absl::Status kept = early.Keep(key, std::move(*chunk), plans_.BytesOf(key));
  changed_.NotifyAll();
  if (!kept.ok()) return kept;
  return nullptr;
}

bool HopExchange::EndsNow(const HopTransfer& transfer) {
  if (transfer.taking > 0) return false;
  for (const auto& [rank, position] : transfer.positions) {
    if (!position.is_ready() || position.to_take > 0 || position.to_send > 0) return false;
  }
  --under_way_;
  return true;
}

absl::Status HopExchange::Take(const std::shared_ptr<HopTransfer>& transfer, const HopKey& key,
                               const Chunk& chunk) {
  HopPosition& position = transfer->positions.at(key.receiver);
  const RankPlan::Receive& receive = position.plan().receives[key.receive];
  const std::vector<HopChunk>& hop_chunks = position.HopChunksOf(receive.hop);
  const absl::StatusOr<size_t> next = position.NextOf(key.receive, chunk.header);
  if (next.ok() && position.Take(receive, hop_chunks[*next], chunk.payload)) {
    overflow_.Note(chunk.header.step, key.receiver);
  }
  bool is_over = false;
  {
    MutexLock lock(&mutex_);
    --taking_;
    --transfer->taking;
    if (next.ok()) {
      position.to_take -= hop_chunks[*next].bytes;
      ++position.taken[key.receive];
      for (const int send : receive.sends) {
        Enqueue({transfer, key.receiver, send, &hop_chunks[*next]});
      }
      is_over = EndsNow(*transfer);
    }
    changed_.NotifyAll();
  }
  if (is_over) table_.Complete(transfer->key);
  return next.status();
}

void HopExchange::OnEnd(StreamId stream, const absl::Status& status) {
  absl::optional<Source> ended;
  {
    MutexLock lock(&mutex_);
    readers_.erase(stream);
    for (auto& [source, state] : sources_) {
      if (state.stream != stream) continue;
      state.over = true;
      ended = source;
    }
    changed_.NotifyAll();
  }
  if (!ended.has_value()) return;
  if (!status.ok()) return Fail(status, Rank(ended->first.from));
  bool owes = false;
  for (const auto& transfer : table_.All()) {
    MutexLock lock(&mutex_);
    owes |= Owes(*ended, static_cast<const HopTransfer&>(*transfer));
  }
  if (owes) table_.Fail(HasLeft(Rank(ended->first.from)), absl::nullopt);
}

bool HopExchange::Owes(const Source& source, const HopTransfer& transfer) const {
  const auto& [edge, group] = source;
  if (GroupOf(transfer.key.bucket) != group) return false;
  const HopPosition& position = transfer.positions.at(Rank(edge.to));
  const std::vector<RankPlan::Receive>& receives = position.plan().receives;
  for (size_t i = 0; i < receives.size(); ++i) {
    if (receives[i].from == Rank(edge.from) && position.to_receive[i] > 0) return true;
  }
  return false;
}

// The error keeps the neighbor from suspecting this worker.
absl::Status HopExchange::LetGo() const { return absl::AbortedError(table_.failure().message()); }

// The neighbor is alive, so it is no suspect.
absl::Status HopExchange::HasLeft(Rank neighbour) const {
  return absl::FailedPreconditionError(absl::StrCat(
      NameOfNeighbour(neighbour), " has left, but other workers have not finished all steps"));
}

void HopExchange::Fail(const absl::Status& status, Rank neighbour) {
  table_.Fail(Annotate(status, NameOfNeighbour(neighbour)), view_.Carrier(neighbour).incarnation);
}

void HopExchange::Stop() {
  for (const Group& group : groups_) {
    for (const auto& [edge, link] : group.links) {
      link.neighbour->Cancel();
      if (link.slots != nullptr) link.slots->Cancel();
    }
  }
  MutexLock lock(&mutex_);
  stopped_ = true;
  for (Queue& queue : queues_) {
    queue.outgoing.clear();
    queue.early.Clear();
  }
  changed_.NotifyAll();
}

// The writes to a neighbor that has gone may still use lent memory; the end of the connection
// returns it.
void HopExchange::Drain() {
  for (Group& group : groups_) {
    group.sender.join();
    for (auto& [edge, link] : group.links) link.neighbour.reset();
  }
  MutexLock lock(&mutex_);
  while (taking_ > 0) changed_.Wait(&mutex_);
}

// A neighbor may be late because it waits for another one; the coordinator finds out.
Lateness HopExchange::Explain(const Transfer& late) {
  const auto& transfer = static_cast<const HopTransfer&>(late);
  std::map<Rank, uint64_t> missing;  // bytes by neighbor
  {
    MutexLock lock(&mutex_);
    for (const auto& [rank, position] : transfer.positions) {
      const std::vector<RankPlan::Receive>& receives = position.plan().receives;
      for (size_t i = 0; i < receives.size(); ++i) {
        if (position.to_receive[i] == 0 || view_.Carries(receives[i].from)) continue;
        missing[receives[i].from] += position.to_receive[i];
      }
    }
  }
  std::string what;
  std::set<Incarnation> suspects;
  for (const auto& [rank, bytes] : missing) {
    absl::StrAppend(&what, what.empty() ? "" : ", ", bytes, " bytes of ", NameOfNeighbour(rank));
    suspects.insert(view_.Carrier(rank).incarnation);
  }
  what = missing.empty() ? "a neighbor takes no more data"
                         : absl::StrCat(what, " or later ones are missing");
  return {absl::DeadlineExceededError(absl::StrCat(ToString(late.key), ": ", what)),
          {suspects.begin(), suspects.end()}};
}

absl::Status HopExchange::Finish(absl::Time deadline) {
  MutexLock lock(&mutex_);
  finishing_ = true;
  changed_.NotifyAll();
  const auto is_open = [](const auto& source) { return !source.second.over; };
  const auto is_over = [](const Queue& queue) { return queue.over; };
  while (!stopped_ && (!std::all_of(queues_.begin(), queues_.end(), is_over) ||
                       std::any_of(sources_.begin(), sources_.end(), is_open))) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline)) continue;
    return absl::DeadlineExceededError("the streams did not close: neighbors are still busy");
  }
  return table_.failure();
}

TransferTotals HopExchange::totals() const {
  TransferTotals totals{0, received_bytes_, overflow_.steps(), {}};
  for (const Group& group : groups_) {
    for (const auto& [edge, link] : group.links) {
      totals.sent_on[{Rank(edge.from), Rank(edge.to)}] += link.sent_bytes;
      totals.bytes_sent += link.sent_bytes;
    }
  }
  return totals;
}

}  // namespace gradwire
