#include "worker/data/augment.h"

namespace gradwire {
namespace {

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
constexpr uint64_t kOffsets = 2 * kCropPadding + 1;

}  // namespace

uint64_t SplitMix64(uint64_t state) {
  uint64_t x = state + kGamma;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Augmentation DrawAugmentation(const AugmentKey& key) {
  uint64_t state = 0;
  for (uint64_t value :
       {key.seed, static_cast<uint64_t>(key.epoch), key.step.value(),
        static_cast<uint64_t>(key.rank.value()), static_cast<uint64_t>(key.position)}) {
    state = SplitMix64(state ^ value);
  }
  Augmentation drawn;
  drawn.top = static_cast<int>(SplitMix64(state) % kOffsets);
  drawn.left = static_cast<int>(SplitMix64(state + kGamma) % kOffsets);
  drawn.flip = (SplitMix64(state + 2 * kGamma) >> 63) != 0;
  return drawn;
}

}  // namespace gradwire
