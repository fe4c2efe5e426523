#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_PAYLOAD_SLOTS_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_PAYLOAD_SLOTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/wire/chunk.h"
#include "common/wire/view.h"
#include "worker/backends/memory/bell.h"
#include "worker/backends/memory/shared_memory.h"

namespace gradwire {

// Payloads of chunks between two workers of one host. A link has slots in memory of the sender, to
// which only it can write; the chunk that it sends has no payload but the slot's number:
//
//   sender    find an empty slot ─► copy ─► mark it full ─► send the chunk
//   receiver  get the chunk ─► read the payload where it lies ─► mark the slot empty, ring
//
// A hop reads at once. An aggregator holds a term in its slot until it sums it from there.
//
// Memory order: both marks are stored with release, the full one after the payload is written, the
// empty one after it was read; each side loads the other's mark with acquire before it goes on
// (memory_orders.h). A receiver of an earlier view marks slots that are not used any more, because
// each view has its own memory.
struct PayloadSlots {
  static constexpr uint32_t kCount = 8;
  // As a chunk of a hop (see Segments), or the usual piece of a fold. A longer payload goes through
  // the network.
  static constexpr uint64_t kBytes = 512 << 10;
  static constexpr uint64_t kMemoryBytes = kCount * kBytes;  // of a link

  // Memory of SharedMemory::Writer::kAll.
  struct Marks {
    std::atomic<uint32_t> bytes[kCount];  // of the payload in each; 0: empty
    Bell emptied;                         // rung after a slot was marked empty
  };
};

// The sender's side of a link. Put: one thread; Cancel: any.
class SlotWriter {
 public:
  // `link` counts the links of this worker in this view. ResourceExhausted: the limits of this
  // process or of the host do not allow its memory.
  static absl::StatusOr<std::unique_ptr<SlotWriter>> Make(const View& view, uint32_t link);

  // Copies the payload, and returns the number for ChunkHeader::slot. None if it is empty or too
  // long, or if no slot becomes empty within `patience`: the payload then goes through the network,
  // whose flow control holds the sender back, and which notices a receiver that has gone.
  absl::optional<uint32_t> Put(const ByteSpans& payload, absl::Duration patience);
  // Ends a Put that waits, and all later ones.
  void Cancel();

 private:
  SlotWriter(uint32_t link, SharedMemory data, SharedMemory marks);
  PayloadSlots::Marks* marks() const {
    return reinterpret_cast<PayloadSlots::Marks*>(marks_.data());
  }
  absl::optional<uint32_t> FindEmpty(absl::Duration patience);

  const uint32_t link_;
  const SharedMemory data_;
  const SharedMemory marks_;
  uint32_t next_ = 0;
  std::atomic<bool> cancelled_{false};
};

// Makes the sender's side of a link to `receiver`, of `links` between workers of this host. Null if
// they do not share memory, or if a limit does not allow it, which is logged. Null as well if all
// workers of the view share memory: a network then has only what is beyond a limit of memory.
std::unique_ptr<SlotWriter> MakeSlotWriter(const View& view, const Member& receiver, uint32_t link,
                                           uint64_t links);

// The receiver's side. Get: one thread; Empty: any.
class SlotReader {
 public:
  // Opens the memory of the slot with that number of ChunkHeader::slot (1 or more), made by
  // `sender`, a member of the view. Unavailable: there is no such process; Aborted: it does not
  // have this memory any more; FailedPrecondition: the memory cannot be mapped.
  static absl::StatusOr<std::unique_ptr<SlotReader>> Open(const View& view, const Member& sender,
                                                          uint32_t number);

  // Returns the payload in a slot, valid until Empty. InvalidArgument if it is a slot of another
  // link, or does not hold that many bytes.
  absl::StatusOr<absl::Span<const uint8_t>> Get(uint32_t number, uint32_t bytes) const;
  void Empty(uint32_t number);

 private:
  SlotReader(uint32_t link, SharedMemory data, SharedMemory marks);
  PayloadSlots::Marks* marks() const {
    return reinterpret_cast<PayloadSlots::Marks*>(marks_.data());
  }

  const uint32_t link_;
  const SharedMemory data_;
  const SharedMemory marks_;
};

// Lets a chunk that names a slot have its payload, until `reader` empties the slot. `sender`: the
// worker that the chunk is of; null if there is none. `reader` is that of its stream, null at
// first. InvalidArgument: a slot is not allowed here, or SlotReader::Get; errors of
// SlotReader::Open.
absl::Status FindPayload(const View& view, const Member* sender, Chunk* chunk,
                         std::shared_ptr<SlotReader>* reader);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_PAYLOAD_SLOTS_H_
