#include "worker/backends/memory/bucket_format.h"

#include "worker/backends/memory/shared_memory.h"

namespace gradwire {
namespace {

constexpr uint64_t kCacheLine = 64;

}  // namespace

BucketFormat FormatOf(const BucketSpec& spec, const MemoryWire& wire) {
  BucketFormat format;
  format.elements = spec.bytes / ElementBytes(spec.dtype);
  format.term = format.mean = spec.dtype;
  format.alignment = kCacheLine;  // at least; elements may be single bytes
  format.term_in_place = true;
  if (IsBroadcast(spec)) return format;
  format.coding = CodingOf(wire.dtype);
  if (format.coding != nullptr) {
    format.alignment = format.coding->unit();
    format.term_in_place = false;
    return format;
  }
  format.mean = wire.dtype;
  format.by_hops = wire.by_hops && wire.dtype != v1::DTYPE_FLOAT32;
  if (!format.by_hops) format.term = wire.dtype;
  format.term_in_place = format.term == spec.dtype;
  format.mean_in_place = format.mean == spec.dtype;
  // Each part has pages of its own (see JoinedMemory).
  if (format.mean_in_place) format.alignment = PageBytes() / sizeof(float);
  return format;
}

}  // namespace gradwire
