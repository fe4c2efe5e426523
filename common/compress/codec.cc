#include "common/compress/codec.h"

namespace gradwire {

// The factories of each row are defined in a file of its own.
#define GRADWIRE_CODEC(name, dtype, coding, compressor, has_density, help) \
  std::unique_ptr<Coding> coding();                                        \
  std::unique_ptr<Compressor> compressor(const Compression& compression, uint64_t elements);
#include "common/wire/codecs.inc"

const Coding* CodingOf(v1::DType dtype) {
#define GRADWIRE_CODEC(name, row_dtype, coding, compressor, has_density, help) \
  if (dtype == row_dtype) {                                                    \
    static const Coding* const made = coding().release();                      \
    return made;                                                               \
  }
#include "common/wire/codecs.inc"
  return nullptr;
}

std::unique_ptr<Compressor> MakeCompressor(const Compression& compression, uint64_t elements) {
#define GRADWIRE_CODEC(name, row_dtype, coding, compressor, has_density, help) \
  if (compression.dtype == row_dtype) return compressor(compression, elements);
#include "common/wire/codecs.inc"
  return nullptr;
}

const uint8_t* Contiguous(const ByteSpans& payload, std::vector<uint8_t>* copy) {
  if (payload.size() == 1) return payload.front().data();
  copy->resize(TotalBytes(payload));
  CopyTo(payload, copy->data());
  return copy->data();
}

}  // namespace gradwire
