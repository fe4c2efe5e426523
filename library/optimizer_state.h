#ifndef GRADWIRE_LIBRARY_OPTIMIZER_STATE_H_
#define GRADWIRE_LIBRARY_OPTIMIZER_STATE_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gradwire/v1/membership.pb.h"
#include "worker/state/state_copy.h"
#include "worker/state/state_reader.h"

namespace gradwire {

struct OptimizerRow;  // how the state of a kind of optimizer is reached

// The state of an optimizer of torch, by the names of its parameters:
//
//   optimizer  PARAMETER/NAME, such as "fc1.weight/exp_avg"; a count of steps is I64
class OptimizerState {
 public:
  // `optimizer` must outlive this object; `parameters` are the module's. InvalidArgument if the
  // kind is unknown, or a parameter of the optimizer is not the module's.
  static absl::StatusOr<OptimizerState> Make(torch::optim::Optimizer* optimizer,
                                             const NamedTensors& parameters);

  // Returns the kind, and the parameters of each group: "Adam [0.weight, 0.bias] [2.weight]".
  const std::string& description() const { return description_; }
  // Returns the kind and the present options of each group, for exports.
  v1::OptimizerConfig Config() const;
  // FailedPrecondition if the optimizer has other groups or numbers of parameters than in Make: the
  // state of new ones is not copied.
  absl::Status CheckGroups() const;

  void Copy(std::vector<StateTensorRef>* out) const;
  // Replaces the state; parameters without one in `reader` lose theirs. Errors: those of
  // StateReader::Get.
  absl::Status Restore(const StateReader& reader);

 private:
  OptimizerState(torch::optim::Optimizer* optimizer, const OptimizerRow* row)
      : optimizer_(optimizer), row_(row) {}

  torch::optim::Optimizer* optimizer_;
  const OptimizerRow* row_;
  NamedTensors parameters_;                    // of all groups, in their order, each once
  std::vector<std::vector<uint32_t>> places_;  // of each group's, as in a manifest.json
  std::vector<size_t> sizes_;                  // of the groups, in parameters
  std::string description_;
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_OPTIMIZER_STATE_H_
