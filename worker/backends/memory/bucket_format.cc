#include "worker/backends/memory/bucket_format.h"

namespace gradwire {
namespace {

constexpr uint64_t kCacheLine = 64;

}  // namespace

BucketFormat FormatOf(const BucketSpec& spec, const MemoryWire& wire) {
  BucketFormat format;
  format.elements = spec.bytes / ElementBytes(spec.dtype);
  format.term = format.mean = spec.dtype;
  format.alignment = kCacheLine;  // at least; elements may be single bytes
  if (IsBroadcast(spec)) return format;
  format.coding = CodingOf(wire.dtype);
  if (format.coding != nullptr) {
    format.alignment = format.coding->unit();
    return format;
  }
  format.mean = wire.dtype;
  format.by_hops = wire.by_hops && wire.dtype != v1::DTYPE_FLOAT32;
  if (!format.by_hops) format.term = wire.dtype;
  return format;
}

}  // namespace gradwire
