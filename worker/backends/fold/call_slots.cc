#include "worker/backends/fold/call_slots.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "worker/backends/memory/payload_slots.h"

namespace gradwire {
namespace {

// Counts the links of this process.
std::atomic<uint32_t> links{0};

class CallSlots : public CallMemory {
 public:
  explicit CallSlots(int calls) : calls_(calls) {}

  // Does not wait for an empty slot: an aggregator may hold a term until the last rank's comes.
  bool Put(const View& view, Incarnation to, absl::Span<const uint8_t> payload,
           ChunkHeader* header) override {
    if (!asked_) {
      asked_ = true;
      writer_ = MakeWriter(view, to);
    }
    if (writer_ == nullptr) return false;
    const absl::optional<uint32_t> slot = writer_->Put({payload}, absl::ZeroDuration());
    if (!slot.has_value()) return false;
    header->slot = *slot;
    header->slot_bytes = static_cast<uint32_t>(payload.size());
    return true;
  }

  absl::Status Find(const View& view, const Member* from, Chunk* chunk) override {
    if (absl::Status found = FindPayload(view, from, chunk, &reader_); !found.ok()) return found;
    const uint32_t slot = chunk->header.slot;
    chunk->owner =
        std::shared_ptr<const void>(chunk->payload.front().data(),
                                    [reader = reader_, slot](const void*) { reader->Empty(slot); });
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<SlotWriter> MakeWriter(const View& view, Incarnation to) const {
    const auto shares = [&view](const Member& member) { return view.SharesMemoryWith(member); };
    const auto receiver =
        std::find_if(view.members.begin(), view.members.end(),
                     [to](const Member& member) { return member.incarnation == to; });
    if (receiver == view.members.end() || to == view.self) return nullptr;
    // Each worker of the host has calls with each other one, for terms and for means.
    const auto workers = std::count_if(view.members.begin(), view.members.end(), shares);
    return MakeSlotWriter(view, *receiver, links++, 2 * calls_ * workers * (workers - 1));
  }

  const uint64_t calls_;  // that a worker has with another one, in each direction
  bool asked_ = false;
  std::unique_ptr<SlotWriter> writer_;  // null: the payloads go through the call
  std::shared_ptr<SlotReader> reader_;
};

}  // namespace

MakeCallMemory CallMemoryOf(const BackendOptions& options) {
  if (!options.slots) return nullptr;
  const int calls = std::max(options.groups, options.connections);
  return [calls] { return std::make_unique<CallSlots>(calls); };
}

}  // namespace gradwire
