// The sender threads of HopExchange, one for each group.

#include "common/wire/chunk_codec.h"
#include "worker/backends/hops/hop_exchange.h"

namespace gradwire {
namespace {

// How long a sender waits for an empty slot.
constexpr absl::Duration kSlotPatience = absl::Milliseconds(100);

}  // namespace

void HopExchange::NextEarly(Queue* queue, Work* work) {
  work->taker = nullptr;
  auto next = queue->early.Next([this](const HopKey& key, const Chunk& chunk) {
    const auto found = std::static_pointer_cast<HopTransfer>(table_.Find(key.bucket));
    return found != nullptr &&
           found->positions.at(key.receiver).CanTake(key.receive, chunk.header.offset);
  });
  if (!next.has_value()) return;
  std::tie(work->key, work->chunk) = *std::move(next);
  work->taker = std::static_pointer_cast<HopTransfer>(table_.Find(work->key.bucket));
  ++taking_;
  ++work->taker->taking;
}

void HopExchange::NextOutgoing(Queue* queue, Work* work) {
  work->outgoing = Outgoing();
  if (queue->outgoing.empty()) return;
  const auto urgent = std::prev(queue->outgoing.end());
  work->outgoing = std::move(urgent->second.front());
  urgent->second.pop_front();
  if (urgent->second.empty()) queue->outgoing.erase(urgent);
}

bool HopExchange::NextWork(int group, Work* work) {
  MutexLock lock(&mutex_);
  Queue& queue = queues_[group];
  while (true) {
    if (stopped_) return false;
    NextEarly(&queue, work);
    NextOutgoing(&queue, work);
    if (work->taker != nullptr || work->outgoing.transfer != nullptr) return true;
    if (finishing_ && under_way_ == 0) return false;
    changed_.Wait(&mutex_);
  }
}

void HopExchange::SenderLoop(int group) {
  Work work;
  while (NextWork(group, &work)) {
    if (work.taker != nullptr) {
      const absl::Status status = Take(work.taker, work.key, work.chunk);
      if (!status.ok()) Fail(status, work.chunk.header.rank);
      work.chunk = Chunk();
    }
    if (work.outgoing.transfer != nullptr) Send(work.outgoing);
  }
  work = Work();
  for (const auto& [edge, link] : groups_[group].links) {
    const absl::Status closed = link.neighbour->Close();
    if (!closed.ok()) Fail(closed, Rank(edge.to));
  }
  MutexLock lock(&mutex_);
  queues_[group].over = true;
  changed_.NotifyAll();
}

ChunkHeader HopExchange::HeaderOf(const Outgoing& outgoing, const Hop& hop) const {
  ChunkHeader header;
  header.run_id = view_.run_id;
  header.epoch = view_.epoch;
  header.generation = view_.generation;
  header.layout = outgoing.transfer->key.layout;
  header.step = outgoing.transfer->key.step;
  header.rank = outgoing.sender;
  header.bucket = outgoing.transfer->key.bucket;
  header.offset = outgoing.hop_chunk->ranges.front().offset;
  header.total = outgoing.transfer->spec.bytes;
  header.dtype = outgoing.transfer->spec.dtype;
  header.hop = static_cast<uint32_t>(hop.number);
  return header;
}

void HopExchange::Send(const Outgoing& outgoing) {
  HopTransfer& transfer = *outgoing.transfer;
  HopPosition& position = transfer.positions.at(outgoing.sender);
  const RankPlan::Send& send = position.plan().sends[outgoing.send];
  if (send.of_terms && position.PrepareTerms(*outgoing.hop_chunk)) {
    overflow_.Note(transfer.key.step, outgoing.sender);
  }
  const ByteSpans payload = position.Sent(send, *outgoing.hop_chunk);
  const ChunkHeader header = HeaderOf(outgoing, send.hop);
  auto& links = groups_[GroupOf(transfer.key.bucket)].links;
  const auto link = links.find(send.hop.edge);
  absl::Status sent;
  if (link != links.end()) {
    sent = SendTo(&link->second, outgoing, header, payload);
  } else {
    const auto& incoming = plans_.Of(transfer.key).hops.incoming;
    const int receive = incoming.at({send.hop.segment, send.hop.number}).receive;
    sent = Accept({transfer.key, send.to, receive}, {header, payload, nullptr});
  }
  if (!sent.ok()) return Fail(sent, send.to);
  bool is_over;
  {
    MutexLock lock(&mutex_);
    position.to_send -= outgoing.hop_chunk->bytes;
    is_over = EndsNow(transfer);
  }
  if (is_over) table_.Complete(transfer.key);
}

absl::Status HopExchange::SendTo(Link* link, const Outgoing& outgoing, const ChunkHeader& header,
                                 const ByteSpans& payload) {
  ChunkHeader sealed = header;
  sealed.checksum = Checksum(payload);
  if (link->slots != nullptr) {
    if (const auto slot = link->slots->Put(payload, kSlotPatience); slot.has_value()) {
      sealed.slot = *slot;
      sealed.slot_bytes = static_cast<uint32_t>(outgoing.hop_chunk->bytes);
      return link->neighbour->Write(EncodeChunk(sealed, {}));
    }
  }
  std::vector<grpc::Slice> slices;
  for (const auto& piece : payload) {
    slices.push_back(outgoing.transfer->lender.Lend(piece.data(), piece.size()));
  }
  const absl::Status sent = link->neighbour->Write(EncodeChunk(sealed, std::move(slices)));
  if (sent.ok()) link->sent_bytes += outgoing.hop_chunk->bytes;
  return sent;
}

}  // namespace gradwire
