#ifndef GRADWIRE_COMMON_WIRE_TENSOR_DIGEST_H_
#define GRADWIRE_COMMON_WIRE_TENSOR_DIGEST_H_

#include <cstddef>
#include <cstdint>

namespace gradwire {

// What tells a tensor's bits from others': XXH3_64bits of its elements as they lie in memory.
struct TensorDigest {
  size_t tensor = 0;  // index in the Layout
  uint64_t digest = 0;

  friend bool operator==(const TensorDigest& a, const TensorDigest& b) {
    return a.tensor == b.tensor && a.digest == b.digest;
  }
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_TENSOR_DIGEST_H_
