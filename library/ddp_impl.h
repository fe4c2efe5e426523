#ifndef GRADWIRE_LIBRARY_DDP_IMPL_H_
#define GRADWIRE_LIBRARY_DDP_IMPL_H_

#include <gradwire/distributed_data_parallel.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/clock.h"
#include "common/telemetry/figure_series.h"
#include "common/telemetry/step_record.h"
#include "library/process_group_impl.h"
#include "library/program_state.h"
#include "worker/backends/low_rank_exchange.h"
#include "worker/ddp/reducer.h"

namespace gradwire {

// One module's reducer and its hooks. A rank's averaging pass:
//
//   Arm ─► forward ─► backward ┬ OnBegin  ┬ bucket 0, 1, … ┬ OnEnd ┬─► optimizer
//                              │ (join:   │ contributed      │ means │
//                              │ asks who │ (answers)      │ are   │
//                              │ is there)│                │ .grad │─► Arm
//
// OnEnd runs inside backward(), too: the engine calls it when all nodes are done. A rank that has
// run out of data takes part with Shadow instead of forward and backward.
class DistributedDataParallel::Impl {
 public:
  Impl(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<ProcessGroup> group,
       ProcessGroup::Impl* run, const DDPOptions& options);
  ~Impl();

  void BeginNoSync();
  void EndNoSync();
  void Join(const std::function<void()>& loop, const JoinOptions& options);
  void Attach(torch::optim::Optimizer* optimizer);
  void Attach(const std::string& name, StateHooks hooks);
  int64_t Resume();
  void EndStep();
  // Before the group closes: the state after the last step is kept, too.
  absl::Status KeepLast();
  // This object ends: warns if the group is not closed yet, because KeepLast cannot run then.
  void WarnIfNotKept() const;
  void SetLoss(double loss, int64_t samples);
  int64_t steps() const {
    return static_cast<int64_t>(step_.value() - member_.view().first_step.value());
  }
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }

 private:
  // Which ranks have data; empty outside of Join.
  using Active = std::vector<bool>;
  // A parameter in a bucket.
  struct BucketParameter {
    torch::Tensor parameter;
    size_t index = 0;  // in names_
  };

  absl::Status Attach();
  // Declares the buckets to all ranks, and connects `exchange`.
  absl::Status Connect();
  // Makes the next backward pass average.
  void Arm();
  void OnBegin();
  void OnEnd();
  // Ends the pass, after backward or instead of it.
  absl::Status Finish(const Active& active, bool has_data);
  absl::Status CheckAllUsed() const;
  // Returns for each parameter whether some rank has a gradient for it; empty: all do.
  absl::StatusOr<std::vector<bool>> UsedAnywhere(bool has_data);
  absl::Status TakeMeans(const std::vector<bool>& used, double scale);
  void SetGradient(size_t bucket, size_t index, double scale);
  void KeepBuffers();
  absl::Status ShareBuffers(const Active& active);
  void AskWhoIsActive(bool self);
  // Fails the run if the ranks have different JoinOptions.
  Active TakeAnswers();
  void Shadow(const Active& active);
  void ThrowIfEarly(const Active& active);
  void Report();
  // For attach: the program has computed nothing.
  void CheckNotBegun(const char* call) const;
  ProgramState& state();
  absl::Status CheckResumed() const;
  void TellOfCommit();
  // Ends the run with `status` (not OK), and throws the error to report.
  [[noreturn]] void Fail(const absl::Status& status);
  absl::Status WithName(const absl::Status& status) const;

  const std::shared_ptr<torch::nn::Module> module_;
  const std::shared_ptr<ProcessGroup> group_;  // keeps *run_ alive
  ProcessGroup::Impl* const run_;
  GroupMember& member_;
  const absl::Time made_ = SteadyNow();
  const DDPOptions options_;
  const std::string name_;
  std::vector<std::string> names_;  // of parameters
  std::vector<torch::Tensor> buffers_;
  LayoutId layout_;                            // unless low_rank_
  std::unique_ptr<LowRankExchange> low_rank_;  // null unless powersgd
  CompressionMeter compression_;               // for low_rank_
  std::unique_ptr<Reducer> reducer_;
  std::vector<std::vector<BucketParameter>> slots_;  // by gradient bucket
  Step step_;
  int no_sync_ = 0;                      // number of guards
  std::unique_ptr<ProgramState> state_;  // of Attach; null: none is kept
  absl::optional<Step> next_;            // of EndStep; set by Resume

  bool joining_ = false;
  JoinOptions join_options_;
  Active active_;                           // of the pass
  std::vector<torch::Tensor> own_buffers_;  // of the pass, before the other ranks' arrive

  // State of the current step:
  absl::Time begin_;
  absl::Time backward_end_;
  absl::optional<double> loss_;  // of this step, if the program reported it
  int64_t samples_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_DDP_IMPL_H_
