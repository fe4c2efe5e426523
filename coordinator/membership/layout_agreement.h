#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_LAYOUT_AGREEMENT_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_LAYOUT_AGREEMENT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// What the workers of a run exchange: the n-th layout is agreed when all that are left have
// declared it. Who declares it first fixes it. Pure.
class LayoutAgreement {
 public:
  LayoutAgreement(int world_size, int workers) : world_size_(world_size), workers_(workers) {}

  // `worker`, of this name ("rank 0"), declares a layout. True: now all have. InvalidArgument
  //   if its id is not the next one of this worker's;
  //   if a bucket is empty, of unknown type, not whole elements or of a root beyond the
  //   world size, or all together are too large or have no gradients;
  //   if it differs from the first worker's: names the first tensor or bucket that does, or says
  //   how the model is to be served.
  absl::StatusOr<bool> Declare(Incarnation worker, absl::string_view name,
                               const v1::Layout& layout);

  // The worker takes no part any more. Gives the layouts which that lets be agreed.
  std::vector<LayoutId> Forget(Incarnation worker);

  // Of a layout that was declared.
  const std::vector<BucketSpec>& BucketsOf(LayoutId id) const {
    return layouts_[id.value()].buckets;
  }
  // How many are agreed.
  size_t agreed() const { return agreed_; }
  // For messages; "tensor 7" if there is none with such a name.
  std::string NameOfTensor(LayoutId id, size_t tensor) const;
  // Names no optimiser if the layout is not served.
  const v1::Serving& ServingOf(LayoutId id) const { return layouts_[id.value()].serving; }
  // The first layout that others have declared and `worker` has not, with its name for
  // messages: "layout 1 (vgg11)".
  std::optional<std::string> MissingOf(Incarnation worker) const;

 private:
  struct Declared {
    std::string name;   // "layout 1 (vgg11)"
    std::string owner;  // who was first
    Layout tensors;
    std::vector<BucketSpec> buckets;
    v1::Serving serving;
    int workers = 0;  // that have declared it
  };

  const int world_size_;
  int workers_;
  std::vector<Declared> layouts_;  // by id
  std::map<Incarnation, size_t> next_;
  size_t agreed_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_LAYOUT_AGREEMENT_H_
