#include "worker/backends/hops/hop_exchange.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"

namespace gradwire {

HopExchange::HopExchange(const Topology* topology, const View& view, const BackendOptions& options)
    : topology_(*topology),
      view_(view),
      ranks_(view.OwnRanks()),
      wire_(options.wire),
      security_(options.security),
      uses_slots_(options.slots),
      plans_(topology, view),
      overflow_(options.wire, /*sums=*/true),
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

std::unique_ptr<SlotWriter> HopExchange::MakeSlots(Rank to) {
  if (!uses_slots_) return nullptr;
  const auto workers =
      std::count_if(view_.members.begin(), view_.members.end(),
                    [this](const Member& member) { return view_.SharesMemoryWith(member); });
  // Each worker of the ring has a link to its neighbor for its sums and one for means.
  return MakeSlotWriter(view_, view_.Carrier(to), links_++, 2 * workers * groups_.size());
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
    return absl::InvalidArgumentError(
        absl::StrCat("a neighbor sent more chunks of step ", first->value(), " than there are"));
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

bool HopExchange::EndsNow(const HopTransfer& transfer) {
  if (transfer.taking > 0) return false;
  for (const auto& [rank, position] : transfer.positions) {
    if (!position.is_ready() || position.to_take > 0 || position.to_send > 0) return false;
  }
  --under_way_;
  return true;
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
