// The part of HopExchange that takes what neighbors send, on the threads of their streams.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/wire/judge.h"
#include "worker/backends/hops/hop_exchange.h"

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
  std::shared_ptr<SlotReader> reader;
  if (absl::Status found = FindPayload(stream, &chunk, &reader); !found.ok()) return found;
  absl::Status judged = Judge(stream, std::move(chunk), *buckets);
  reader->Empty(slot);
  return judged;
}

absl::Status HopExchange::FindPayload(StreamId stream, Chunk* chunk,
                                      std::shared_ptr<SlotReader>* reader) {
  {
    MutexLock lock(&mutex_);
    *reader = readers_[stream];
  }
  const Rank rank = chunk->header.rank;
  const Member* sender = rank.value() < view_.world_size ? &view_.Carrier(rank) : nullptr;
  if (absl::Status found = gradwire::FindPayload(view_, sender, chunk, reader); !found.ok()) {
    return found;
  }
  MutexLock lock(&mutex_);
  readers_[stream] = *reader;
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

}  // namespace gradwire
