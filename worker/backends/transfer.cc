#include "worker/backends/transfer.h"

#include <utility>

namespace gradwire {

Transfer MakeReduce(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                    absl::Time deadline, Backend::Done done) {
  const uint64_t bytes = terms.size() * sizeof(float);
  return {key,
          {bytes, v1::DTYPE_FLOAT32},
          {reinterpret_cast<const uint8_t*>(terms.data()), bytes},
          {reinterpret_cast<uint8_t*>(mean.data()), bytes},
          deadline,
          std::move(done)};
}

Transfer MakeBroadcast(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                       Backend::Done done) {
  return {key, {bytes.size(), v1::DTYPE_BYTES}, bytes, bytes, deadline, std::move(done)};
}

}  // namespace gradwire
