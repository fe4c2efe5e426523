#include "worker/backends/memory/payload_slots.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "worker/backends/memory/memory_budget.h"
#include "worker/backends/memory/memory_layout.h"
#include "worker/backends/memory/memory_orders.h"

namespace gradwire {
namespace {

using Writer = SharedMemory::Writer;

static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share it");

// Numbers count the slots of all links of a worker, from 1.
uint32_t NumberOf(uint32_t link, uint32_t slot) { return link * PayloadSlots::kCount + slot + 1; }
uint32_t LinkOf(uint32_t number) { return (number - 1) / PayloadSlots::kCount; }
uint32_t SlotOf(uint32_t number) { return (number - 1) % PayloadSlots::kCount; }

std::string NameOfSlots(const View& view, Incarnation sender, uint32_t link,
                        const std::string& what) {
  return MemoryName(view, sender, absl::StrCat("slots-", link, "-", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SlotWriter>> SlotWriter::Make(const View& view, uint32_t link) {
  auto data = SharedMemory::Make(NameOfSlots(view, view.self, link, "data"),
                                 PayloadSlots::kMemoryBytes, Writer::kMaker);
  if (!data.ok()) return data.status();
  auto marks = SharedMemory::Make(NameOfSlots(view, view.self, link, "marks"),
                                  sizeof(PayloadSlots::Marks), Writer::kAll);
  if (!marks.ok()) return marks.status();
  return absl::WrapUnique(new SlotWriter(link, *std::move(data), *std::move(marks)));
}

SlotWriter::SlotWriter(uint32_t link, SharedMemory data, SharedMemory marks)
    : link_(link), data_(std::move(data)), marks_(std::move(marks)) {}

absl::optional<uint32_t> SlotWriter::FindEmpty(absl::Duration patience) {
  const absl::Time until = SteadyNow() + patience;
  while (!cancelled_) {
    const uint32_t rings = marks()->emptied.rings();
    for (uint32_t i = 0; i < PayloadSlots::kCount; ++i) {
      const uint32_t slot = (next_ + i) % PayloadSlots::kCount;
      if (marks()->bytes[slot].load(kSeeOrder) == 0) return slot;
    }
    const absl::Duration left = until - SteadyNow();
    if (left <= absl::ZeroDuration()) return absl::nullopt;
    marks()->emptied.Sleep(rings, left);
  }
  return absl::nullopt;
}

absl::optional<uint32_t> SlotWriter::Put(const ByteSpans& payload, absl::Duration patience) {
  const uint64_t bytes = TotalBytes(payload);
  if (bytes == 0 || bytes > PayloadSlots::kBytes) return absl::nullopt;
  const absl::optional<uint32_t> slot = FindEmpty(patience);
  if (!slot.has_value()) return absl::nullopt;
  next_ = (*slot + 1) % PayloadSlots::kCount;
  CopyTo(payload, data_.data() + *slot * PayloadSlots::kBytes);
  marks()->bytes[*slot].store(static_cast<uint32_t>(bytes), kPublishOrder);
  return NumberOf(link_, *slot);
}

void SlotWriter::Cancel() {
  cancelled_ = true;
  marks()->emptied.Ring();
}

std::unique_ptr<SlotWriter> MakeSlotWriter(const View& view, const Member& receiver, uint32_t link,
                                           uint64_t links) {
  if (view.SharesMemory() || !view.SharesMemoryWith(receiver)) return nullptr;
  absl::Status status;
  for (const Member& member : view.members) {
    if (member.incarnation != view.self && member.incarnation != receiver.incarnation) continue;
    status.Update(
        CheckMemoryLimits(member, PayloadSlots::kMemoryBytes, links * PayloadSlots::kMemoryBytes));
  }
  if (status.ok()) {
    auto writer = SlotWriter::Make(view, link);
    if (writer.ok()) return *std::move(writer);
    status = writer.status();
  }
  spdlog::warn("no shared memory for {} ({}), which gets all through the network: {}",
               NameOf(receiver.ranks), receiver.address, std::string(status.message()));
  return nullptr;
}

absl::StatusOr<std::unique_ptr<SlotReader>> SlotReader::Open(const View& view, const Member& sender,
                                                             uint32_t number) {
  const uint32_t link = LinkOf(number);
  const auto open = [&](const std::string& what, size_t bytes, Writer writer) {
    return SharedMemory::Open(sender.pid, NameOfSlots(view, sender.incarnation, link, what), bytes,
                              writer);
  };
  auto data = open("data", PayloadSlots::kMemoryBytes, Writer::kMaker);
  auto marks = open("marks", sizeof(PayloadSlots::Marks), Writer::kAll);
  for (const auto* memory : {&data, &marks}) {
    const absl::Status& status = memory->status();
    // A sender whose view has ended has no slots any more.
    if (absl::IsNotFound(status)) return absl::AbortedError(status.message());
    if (absl::IsUnavailable(status)) return status;
    if (!status.ok()) return absl::FailedPreconditionError(status.message());
  }
  return absl::WrapUnique(new SlotReader(link, *std::move(data), *std::move(marks)));
}

SlotReader::SlotReader(uint32_t link, SharedMemory data, SharedMemory marks)
    : link_(link), data_(std::move(data)), marks_(std::move(marks)) {}

absl::StatusOr<absl::Span<const uint8_t>> SlotReader::Get(uint32_t number, uint32_t bytes) const {
  if (LinkOf(number) != link_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "got slot ", number, ", expected one from ", NumberOf(link_, 0), " to ",
        NumberOf(link_, PayloadSlots::kCount - 1), ", like the others of this stream"));
  }
  const uint32_t held = marks()->bytes[SlotOf(number)].load(kSeeOrder);
  if (held != bytes || bytes > PayloadSlots::kBytes) {
    return absl::InvalidArgumentError(absl::StrCat("got ", bytes, " bytes in slot ", number,
                                                   ", expected ", held, ", as it is marked"));
  }
  return absl::MakeConstSpan(data_.data() + SlotOf(number) * PayloadSlots::kBytes, bytes);
}

void SlotReader::Empty(uint32_t number) {
  marks()->bytes[SlotOf(number)].store(0, kPublishOrder);
  marks()->emptied.Ring();
}

absl::Status FindPayload(const View& view, const Member* sender, Chunk* chunk,
                         std::shared_ptr<SlotReader>* reader) {
  const ChunkHeader& header = chunk->header;
  const std::string name = absl::StrCat("chunk of ", ToString(header));
  if (sender == nullptr || sender->incarnation == view.self || !view.SharesMemoryWith(*sender) ||
      !chunk->payload.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": got slot ", header.slot, ", expected a payload, or a slot without one of a rank ",
        "on another worker of this host"));
  }
  if (*reader == nullptr) {
    auto opened = SlotReader::Open(view, *sender, header.slot);
    if (!opened.ok()) return Annotate(opened.status(), name);
    *reader = *std::move(opened);
  }
  const auto payload = (*reader)->Get(header.slot, header.slot_bytes);
  if (!payload.ok()) return Annotate(payload.status(), name);
  chunk->payload = {*payload};
  return absl::OkStatus();
}

}  // namespace gradwire
