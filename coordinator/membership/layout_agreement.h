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

// The layouts that the workers of a run exchange. The n-th layout is agreed when all remaining
// workers have declared it. The first declaration of a layout is the reference. Pure.
class LayoutAgreement {
 public:
  LayoutAgreement(int world_size, int workers) : world_size_(world_size), workers_(workers) {}

  // Takes a layout declared by `worker`; `name` is for messages ("rank 0"). True if all workers
  // have declared it now. InvalidArgument
  //   if its id is not this worker's next one;
  //   if a bucket is empty, of unknown type, not a whole number of elements or of an invalid root;
  //   if all buckets together are too large or have no gradients;
  //   if it differs from the first worker's, with the first tensor or bucket that differs, or with
  //   how the model is served.
  absl::StatusOr<bool> Declare(Incarnation worker, absl::string_view name,
                               const v1::Layout& layout);

  // Removes a worker. Returns the layouts that are now agreed.
  std::vector<LayoutId> Forget(Incarnation worker);

  // `id` must be a declared layout.
  const std::vector<BucketSpec>& BucketsOf(LayoutId id) const {
    return layouts_[id.value()].buckets;
  }
  // Number of agreed layouts.
  size_t agreed() const { return agreed_; }
  // For messages; "tensor 7" if it has no name.
  std::string NameOfTensor(LayoutId id, size_t tensor) const;
  // Names no optimizer if the layout is not served.
  const v1::Serving& ServingOf(LayoutId id) const { return layouts_[id.value()].serving; }
  // Returns whether the ranks share evaluations through it: it has kEvaluationLayout's name, and
  // begins with bytes. (A program may call its model so.)
  bool IsEvaluation(LayoutId id) const { return layouts_[id.value()].is_evaluation; }
  // Returns the first layout that others have declared and `worker` has not, as "layout 1 (vgg11)"
  // for messages.
  std::optional<std::string> MissingOf(Incarnation worker) const;

 private:
  struct Declared {
    std::string name;   // "layout 1 (vgg11)"
    std::string owner;  // the first worker to declare it
    Layout tensors;
    std::vector<BucketSpec> buckets;
    v1::Serving serving;
    bool is_evaluation = false;
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
