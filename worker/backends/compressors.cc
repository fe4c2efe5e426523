#include "worker/backends/compressors.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// Returns the name of number `i` of Compressor::state.
std::string KindOf(size_t i) {
  if (i == 0) return "error";
  return i == 1 ? "momentum" : absl::StrCat("state", i);
}

}  // namespace

Compressor* Compressors::Of(LayoutId layout, Rank rank, Bucket bucket, uint64_t elements) {
  MutexLock lock(&mutex_);
  std::unique_ptr<Compressor>& made = made_[{layout, rank, bucket}];
  if (made == nullptr) made = MakeCompressor(compression_, elements);
  return made.get();
}

void Compressors::AddKept(LayoutId layout, absl::Span<const BucketSpec> buckets,
                          absl::Span<const Rank> ranks, std::vector<KeptValues>* kept) {
  for (size_t b = 0; b < buckets.size(); ++b) {
    if (!compression_.is_coded() || IsBroadcast(buckets[b])) continue;
    const Bucket bucket(static_cast<int>(b));
    for (const Rank rank : ranks) {
      const auto state = Of(layout, rank, bucket, buckets[b].bytes / sizeof(float))->state();
      for (size_t i = 0; i < state.size(); ++i) {
        kept->push_back({KindOf(i), rank, bucket, /*first=*/0, /*shape=*/{}, state[i]});
      }
    }
  }
}

std::vector<uint8_t> EncodeTerm(Compressor* compressor, Step step, uint64_t first,
                                absl::Span<const float> values, CompressionTotals* totals) {
  std::vector<uint8_t> payload = compressor->Encode(step, first, values);
  *totals = {values.size() * sizeof(float), payload.size()};
  if (!IsResidualMeasured(step)) return payload;
  totals->gradient_square = SquareOf(values);
  totals->residual_square = SquareOf(compressor->state().front().subspan(first, values.size()));
  return payload;
}

}  // namespace gradwire
