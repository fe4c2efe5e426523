#include "worker/backends/memory/payload_slots.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/backends/memory/memory_layout.h"
#include "worker/backends/memory/memory_orders.h"

namespace gradwire {
namespace {

using Writer = SharedMemory::Writer;

static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share it");

// How long a sender waits for an empty slot.
constexpr absl::Duration kSlotPatience = absl::Milliseconds(100);

// Numbers count the slots of all links of a worker, from 1.
uint32_t NumberOf(uint32_t link, uint32_t slot) { return link * PayloadSlots::kCount + slot + 1; }
uint32_t LinkOf(uint32_t number) { return (number - 1) / PayloadSlots::kCount; }
uint32_t SlotOf(uint32_t number) { return (number - 1) % PayloadSlots::kCount; }

std::string NameOfSlots(const View& view, Incarnation sender, uint32_t link,
                        const std::string& what) {
  return MemoryName(view, sender, absl::StrCat("hop-", link, "-", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SlotWriter>> SlotWriter::Make(const View& view,
                                                                   uint32_t link) {
  auto data = SharedMemory::Make(NameOfSlots(view, view.self, link, "data"), PayloadSlots::kMemoryBytes,
                                 Writer::kMaker);
  if (!data.ok()) return data.status();
  auto marks = SharedMemory::Make(NameOfSlots(view, view.self, link, "marks"),
                                  sizeof(PayloadSlots::Marks), Writer::kAll);
  if (!marks.ok()) return marks.status();
  return absl::WrapUnique(new SlotWriter(link, *std::move(data), *std::move(marks)));
}

SlotWriter::SlotWriter(uint32_t link, SharedMemory data, SharedMemory marks)
    : link_(link), data_(std::move(data)), marks_(std::move(marks)) {}

bool SlotWriter::WaitUntilEmpty(uint32_t slot) {
  const absl::Time until = SteadyNow() + kSlotPatience;
  while (!cancelled_) {
    const uint32_t rings = marks()->emptied.rings();
    if (marks()->bytes[slot].load(kSeeOrder) == 0) return true;
    const absl::Duration left = until - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    marks()->emptied.Sleep(rings, left);
  }
  return false;
}

absl::optional<uint32_t> SlotWriter::Put(const ByteSpans& payload) {
  const uint64_t bytes = TotalBytes(payload);
  if (bytes > PayloadSlots::kBytes || !WaitUntilEmpty(next_)) return absl::nullopt;
  const uint32_t slot = next_;
  next_ = (next_ + 1) % PayloadSlots::kCount;
  CopyTo(payload, data_.data() + slot * PayloadSlots::kBytes);
  marks()->bytes[slot].store(static_cast<uint32_t>(bytes), kPublishOrder);
  return NumberOf(link_, slot);
}

void SlotWriter::Cancel() {
  cancelled_ = true;
  marks()->emptied.Ring();
}

absl::StatusOr<std::unique_ptr<SlotReader>> SlotReader::Open(const View& view,
                                                                   const Member& sender,
                                                                   uint32_t number) {
  const uint32_t link = LinkOf(number);
  const auto open = [&](const std::string& what, size_t bytes, Writer writer) {
    return SharedMemory::Open(sender.pid, NameOfSlots(view, sender.incarnation, link, what), bytes,
                              writer);
  };
  auto data = open("data", PayloadSlots::kMemoryBytes, Writer::kMaker);
  auto marks = open("marks", sizeof(PayloadSlots::Marks), Writer::kAll);
  for (const auto* memory : {&data, &marks}) {
    if (!memory->ok()) return absl::FailedPreconditionError(memory->status().message());
  }
  return absl::WrapUnique(new SlotReader(link, *std::move(data), *std::move(marks)));
}

SlotReader::SlotReader(uint32_t link, SharedMemory data, SharedMemory marks)
    : link_(link), data_(std::move(data)), marks_(std::move(marks)) {}

absl::StatusOr<absl::Span<const uint8_t>> SlotReader::Get(uint32_t number,
                                                             uint32_t bytes) const {
  if (LinkOf(number) != link_) {
    return absl::InvalidArgumentError(
        absl::StrCat("got slot ", number, ", expected one from ", NumberOf(link_, 0), " to ",
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

}  // namespace gradwire
