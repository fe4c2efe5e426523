#ifndef GRADWIRE_WORKER_BACKENDS_TRANSFER_H_
#define GRADWIRE_WORKER_BACKENDS_TRANSFER_H_

#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/wire/layout.h"
#include "common/wire/slice_lender.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// One bucket that an exchange has under way, from Expect to its done. A back end derives
// from it what it has to know besides.
struct Transfer {
  Transfer(const BucketKey& key, const BucketSpec& spec, absl::Span<uint8_t> result,
           absl::Time deadline, Exchange::Done done)
      : key(key), spec(spec), result(result), deadline(deadline), done(std::move(done)) {}
  virtual ~Transfer() = default;

  const BucketKey key;
  const BucketSpec spec;             // on the wire
  const absl::Span<uint8_t> result;  // float32, or the root's bytes
  const absl::Time deadline;
  const Exchange::Done done;
  SliceLender lender;  // of the memory that is sent from: terms, sums
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_TRANSFER_H_
