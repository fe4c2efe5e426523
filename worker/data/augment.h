#ifndef GRADWIRE_WORKER_DATA_AUGMENT_H_
#define GRADWIRE_WORKER_DATA_AUGMENT_H_

#include <cstdint>

#include "common/base/ids.h"

namespace gradwire {

// Rows and columns of zeros that RandomCrop adds on each side before it crops.
inline constexpr int kCropPadding = 4;

// The image of a run for which random numbers are drawn.
struct AugmentKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  Step step;  // counted over the whole run
  Rank rank;
  int64_t position = 0;  // in the rank's batch
};

// Changes of one image: RandomCrop to its own size from the image padded by kCropPadding, then
// RandomHorizontalFlip with probability 1/2.
struct Augmentation {
  int top = kCropPadding;   // row of the padded image where the crop starts
  int left = kCropPadding;  // its column; (kCropPadding, kCropPadding) is the image itself
  bool flip = false;        // mirrors the crop left to right
};

// A function of only the key, so that any process can repeat any rank's images:
//
//   mix(x)  the finalizer of splitmix64 (Steele, Lea, Flood 2014)
//   state   0, then for each of seed, epoch, step, rank, position in this order:
//           state = mix((state xor value) + G), with G = 0x9e3779b97f4a7c15
//   top     mix(state + G) mod 9
//   left    mix(state + 2G) mod 9
//   flip    the highest bit of mix(state + 3G)
//
// A change would change every augmented run; a test pins the values.
Augmentation DrawAugmentation(const AugmentKey& key);

// mix(x + G) above: the number that splitmix64 gives in state x.
uint64_t SplitMix64(uint64_t state);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_AUGMENT_H_
