#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/wire/layout.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// What a Hello must say to be let in. All pure; every error is the one that the
// worker sees, and names what was got and what was expected.

// What the first Hello that was let in fixes for all others.
struct Terms {
  std::string owner;  // whose Hello it was: "rank 0"
  Layout layout;
  std::vector<BucketSpec> buckets;
  std::map<std::string, std::string> settings;
};

Terms TermsOf(const v1::Hello& hello, absl::string_view owner);

// InvalidArgument if the world size is neither 0 nor `world_size`, the rank is
// not below it, the address is not HOST:PORT, or a bucket is empty or (float32)
// not whole elements.
absl::Status CheckForm(const v1::Hello& hello, int world_size);

// InvalidArgument naming the first tensor, bucket or setting that differs.
absl::Status CheckTerms(const v1::Hello& hello, const Terms& terms);

// InvalidArgument if one of the two addresses is a loopback address and the
// other is not: one of the neighbours could not be reached. `other` is
// whose `other_address` is, such as "rank 0".
absl::Status CheckReach(absl::string_view address, absl::string_view other_address,
                        absl::string_view other);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_ADMISSION_H_
