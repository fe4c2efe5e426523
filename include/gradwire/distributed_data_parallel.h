#ifndef GRADWIRE_DISTRIBUTED_DATA_PARALLEL_H_
#define GRADWIRE_DISTRIBUTED_DATA_PARALLEL_H_

#include <gradwire/error.h>
#include <gradwire/export.h>
#include <gradwire/process_group.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace gradwire {

struct DDPOptions {
  // Copies rank 0's buffers (BatchNorm statistics) to all ranks at the end of each averaging
  // backward pass. All forward passes of a step then begin with the same buffers.
  bool broadcast_buffers = true;
  // Size of a bucket in MiB; 0: a bucket for each parameter. Gradients travel in buckets of this
  // size or more, each as soon as backward has computed it. Small buckets leave early; each costs
  // about 0.1 ms.
  double bucket_cap_mb = 1;
  // False: a parameter without a gradient after backward is an error. True: it counts as zero on
  // this rank; if no rank used it, its .grad stays unchanged. Costs one more message. Equal on all
  // ranks.
  bool find_unused_parameters = false;
  // True: each .grad becomes a view into the memory of the buckets, which saves a copy of all
  // gradients. Such a .grad must not be detached or resized. The next averaging backward pass
  // overwrites it, even if the program keeps it under another name.
  bool gradient_as_bucket_view = false;
  // Name of the model in messages. Default: "model 0", "model 1", … in order of construction.
  std::string name;
};

struct JoinOptions {
  // True: gradients are divided by the number of all ranks. False: by the number of ranks that
  // still have data, so that a late batch counts as much as an early one.
  bool divide_by_initial_world_size = true;
  // All ranks throw Error (kAborted) when the first rank runs out of data.
  bool throw_on_early_termination = false;
};

// State of a program that a checkpoint keeps for each rank, as bytes.
struct StateHooks {
  // Returns the bytes of this rank, between two steps. Any length.
  std::function<std::string()> capture;
  // Restores the state from bytes that `capture` returned on this rank.
  std::function<void(const std::string& bytes)> restore;
  // The checkpoint before `step` is on the disk. May be empty.
  std::function<void(int64_t step)> on_commit;
};

// Makes a module data-parallel. Each rank computes its own loss on its own share of the data. When
// backward() returns, the .grad of each parameter is the mean over all ranks. Any optimizer of
// torch then makes the same update on all ranks.
//
//   auto group = gradwire::init_process_group();
//   Net net;
//   gradwire::DistributedDataParallel ddp(net, group);
//   torch::optim::Adam adam(net->parameters());
//   …
//   adam.zero_grad(); loss(net->forward(x), y).backward(); adam.step();
//
// The object attaches to the parameters; call the module's forward as usual. Construct models in
// the same order on all ranks, and run the averaging backward passes of each model on all ranks.
//
// The object averages what .grad would be without it:
//   - The mean includes gradients of passes under no_sync, gradients set by hand before the pass,
//     and a .grad that an earlier pass left, unless it was zeroed. An averaged .grad is equal on
//     all ranks, so averaging it again does not change it.
//   - Several averaging passes before one step of the optimizer add up to the right sum, but each
//     has its own exchange. Run all but the last under no_sync.
//   - torch::autograd::grad does not change .grad, so it averages nothing.
// With GroupOptions::compress the result is near that mean. The object keeps the rest and adds it
// in later passes, so zero the gradients before each averaging pass; the rest is lost with the
// object. A backward pass may go through several modules that each have an object; all are
// averaged.
//
// backward() throws Error if averaging fails; the run is then over for all ranks:
//   kInvalidArgument     a parameter got no gradient (see find_unused_parameters), or one that is
//                        sparse or not of float32; names the parameter
//   kFailedPrecondition  backward ran within backward (reentrant checkpoints), or an earlier
//                        backward did not finish because something else threw in it
//   others               those of ProcessGroup's collectives
//
// One thread at a time, the one that calls the group's collectives; backward of CPU tensors runs
// there.
class GRADWIRE_EXPORT DistributedDataParallel {
 public:
  // All parameters that require a gradient must be float32; all parameters and buffers must be
  // contiguous and on the CPU. Names, shapes and types must be equal on all ranks; rank 0's values
  // are copied to all. From now on the set of parameters that require a gradient, and their
  // tensors, are fixed. Keeps the module and the group. Throws Error (kInvalidArgument) if a
  // pointer is null, this rank's module is unsuitable or the ranks' modules or options differ, as
  // far as these must be equal; the message names the first difference (kAborted on the other
  // ranks).
  DistributedDataParallel(std::shared_ptr<torch::nn::Module> module,
                          std::shared_ptr<ProcessGroup> group, const DDPOptions& options = {});
  // Takes a module holder (TORCH_MODULE).
  template <typename Contained>
  DistributedDataParallel(const torch::nn::ModuleHolder<Contained>& module,
                          std::shared_ptr<ProcessGroup> group, const DDPOptions& options = {})
      : DistributedDataParallel(std::static_pointer_cast<torch::nn::Module>(module.ptr()),
                                std::move(group), options) {}

  // Detaches from the parameters; gradients stay as they are.
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  // While a guard exists, backward passes average nothing: gradients add up in .grad. The next pass
  // without a guard averages the sum. Guards may be nested.
  class GRADWIRE_EXPORT NoSyncGuard {
   public:
    ~NoSyncGuard();
    NoSyncGuard(const NoSyncGuard&) = delete;
    NoSyncGuard& operator=(const NoSyncGuard&) = delete;

   private:
    friend class DistributedDataParallel;
    explicit NoSyncGuard(DistributedDataParallel* ddp);
    DistributedDataParallel* const ddp_;
  };
  // The object must outlive the guard.
  [[nodiscard]] NoSyncGuard no_sync();

  // Runs `loop`, a rank's training loop, if ranks have different numbers of batches. A rank that
  // has finished takes part in the averaging of the others, with zeros, until all have finished.
  // Then all ranks take the parameters and buffers of the highest rank among the last to finish.
  // Call it on all ranks, with the same options: others end the run (kInvalidArgument). Costs one
  // more message for each averaging pass. Rethrows exceptions of `loop`. `loop` must not call a
  // collective of the group.
  void join(const std::function<void()>& loop, const JoinOptions& options = {});

  // Reports the loss of the next averaging backward pass, and its number of samples, to pages,
  // metrics and `gradwire status`.
  void report_loss(double loss, int64_t samples = 0);

  // The next four keep the program's state in the checkpoints of a coordinator with --run-dir, and
  // continue a run that was ended, with the same bits:
  //
  //   ddp.attach(adam);
  //   for (int64_t step = ddp.resume(); step < steps; ++step) {
  //     adam.zero_grad(); loss(net->forward(x(step)), y(step)).backward(); adam.step();
  //     ddp.end_step();
  //   }
  //
  // Without --run-dir they change nothing, and resume returns 0. A checkpoint has the module's
  // parameters and buffers, the optimizer's state, what GroupOptions::compress keeps, and of each
  // rank torch's random numbers on the CPU and the bytes of hooks. The options of the optimizer's
  // groups, such as learning rates, are the program's: set them from the step. Call them on all
  // ranks alike. They throw Error (kFailedPrecondition) if the order is wrong or the group has
  // several models, and those of the collectives.

  // Keeps the state of `optimizer`, which must outlive this object: SGD, Adam, AdamW, RMSprop or
  // Adagrad, of parameters of the module. Before resume. Throws Error (kInvalidArgument) for
  // another optimizer; its state can be kept by hooks. Call add_param_group before: with a run
  // directory, end_step throws Error (kFailedPrecondition) if there are other groups.
  void attach(torch::optim::Optimizer& optimizer);
  // Keeps the bytes of `hooks` under `name`, which has no '/'. Before resume. Throws Error
  // (kInvalidArgument) if the name is not new, or capture or restore is missing.
  void attach(const std::string& name, StateHooks hooks);
  // Before the first backward pass: restores the state of the checkpoint that the run continues.
  // Returns its step, the first to compute; 0 if the run begins. Throws Error (kInvalidArgument),
  // and ends the run, if module, optimizer, its groups or the names of hooks are others than those
  // of the checkpoint; the message names the first difference. The same with a run directory and a
  // parameter or buffer of complex numbers, which a checkpoint cannot have.
  int64_t resume();
  // After each step of the optimizer: copies the state if a checkpoint is due. Copying takes the
  // time of copying memory; the coordinator fetches the copy while training goes on. A copy that
  // is due while an earlier one is still being written is left out. close() of the group keeps the
  // state after the last step, and waits until it is written; with a checkpoint before each step,
  // not if that copy was left out. Call it while this object exists.
  void end_step();

  // Returns the number of completed averaging backward passes of this process.
  int64_t steps() const;
  const std::shared_ptr<torch::nn::Module>& module() const;

 private:
  class GRADWIRE_HIDDEN Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gradwire

#endif  // GRADWIRE_DISTRIBUTED_DATA_PARALLEL_H_
