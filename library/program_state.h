#ifndef GRADWIRE_LIBRARY_PROGRAM_STATE_H_
#define GRADWIRE_LIBRARY_PROGRAM_STATE_H_

#include <gradwire/distributed_data_parallel.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "library/optimizer_state.h"
#include "worker/backends/kept_values.h"
#include "worker/ddp/reducer.h"
#include "worker/state/kept_state.h"
#include "worker/state/state_owner.h"

namespace gradwire {

// The state of a program that trains one module:
//
//   model      parameters
//   optimizer  see OptimizerState
//   ranks      buffers: rank 0's if they are broadcast, else this rank's
//   codec, residuals   what the exchange keeps
//   program    of this rank: the optimizer's description, the sizes of the buckets if the exchange
//              keeps something, torch's random numbers, bytes of hooks
class ProgramState : public StateOwner {
 public:
  struct Parts {
    std::shared_ptr<torch::nn::Module> module;
    Reducer* reducer = nullptr;                     // its buckets of the module's parameters
    std::function<std::vector<KeptValues>()> kept;  // see Exchange::Kept
    Rank rank;
    bool broadcast = true;  // all ranks have rank 0's buffers
  };

  explicit ProgramState(Parts parts) : parts_(std::move(parts)) {}

  // `optimizer` must outlive this object. FailedPrecondition if there is one already; errors of
  // OptimizerState::Make.
  absl::Status Attach(torch::optim::Optimizer* optimizer);
  // InvalidArgument if the name is empty, has a '/' or occurs twice, or a function is missing.
  absl::Status Attach(const std::string& name, StateHooks hooks);
  bool has_optimizer() const { return optimizer_.has_value(); }
  v1::OptimizerConfig optimizer_config() const { return optimizer_->Config(); }
  // Errors: those of OptimizerState::CheckGroups.
  absl::Status CheckGroups() const { return optimizer_->CheckGroups(); }

  // InvalidArgument for a parameter or buffer of a type that checkpoints do not have.
  absl::Status CheckTypes() const;

  // Calls the hooks' on_commit.
  void OnCommit(int64_t step) const;

  bool IsAtBorder() const override { return true; }
  std::vector<StateTensorRef> Copy() override;
  absl::Status RestoreCommon(const StateReader& reader) override;
  absl::Status RestoreOwn(const StateReader& reader) override;

 private:
  std::string KeyOf(const std::string& name) const;
  std::string KeyOfBuffer(const std::string& name) const;
  PartsOfBuckets PartsOfKept() const;
  // Returns the number of parameters of each bucket: "4, 2".
  std::string BucketSizes() const;
  absl::Status CheckOptimizer(const StateReader& reader) const;
  absl::Status CheckBuckets(const StateReader& reader) const;
  absl::Status CallHooks(const StateReader& reader) const;

  const Parts parts_;
  absl::optional<OptimizerState> optimizer_;
  std::map<std::string, StateHooks> hooks_;
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_PROGRAM_STATE_H_
