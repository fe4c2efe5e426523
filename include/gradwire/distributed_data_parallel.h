#ifndef GRADWIRE_DISTRIBUTED_DATA_PARALLEL_H_
#define GRADWIRE_DISTRIBUTED_DATA_PARALLEL_H_

#include <gradwire/error.h>
#include <gradwire/export.h>
#include <gradwire/process_group.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace gradwire {

struct DDPOptions {
  // Buffers (BatchNorm statistics) become rank 0's at the end of each backward pass that
  // averages, so that all forward passes of a step begin with the same ones.
  bool broadcast_buffers = true;
  // MiB. Gradients travel in buckets of so much or more, each as soon as backward has made
  // it; 0: a bucket for each parameter. Small ones leave early, each costs about 0.1 ms.
  double bucket_cap_mb = 1;
  // False: parameters that backward gives no gradient are an error. True: they count as zero
  // on this rank; those that no rank used keep their .grad as it is. Costs one more message.
  bool find_unused_parameters = false;
  // True: each .grad becomes a view into the memory of the buckets, which saves a copy of
  // all gradients. It must not be detached or resized then, and is overwritten by the next
  // averaging backward pass, also where it was kept under another name.
  bool gradient_as_bucket_view = false;
  // Of the model, for messages; default "model 0", "model 1", … in the order in which they are
  // made.
  std::string name;
};

struct JoinOptions {
  // Gradients are divided by the number of all ranks; false: of those that still have data,
  // so that a late batch counts as much as an early one.
  bool divide_by_initial_world_size = true;
  // When the first rank has no data any more, all ranks throw Error (kAborted).
  bool throw_on_early_termination = false;
};

// Makes a module data-parallel: each rank computes its own loss on its own share of the data,
// and when backward() returns, the .grad of each parameter is the mean of all ranks'. Any
// optimiser of torch then does the same on all ranks.
//
//   auto group = gradwire::init_process_group();
//   Net net;
//   gradwire::DistributedDataParallel ddp(net, group);
//   torch::optim::Adam adam(net->parameters());
//   …
//   adam.zero_grad(); loss(net->forward(x), y).backward(); adam.step();
//
// It attaches to the parameters; the module's forward is called as before. Models are made in the
// same order on all ranks, and each averaging backward pass of one is one on all ranks: what
// is averaged is what .grad would be without this object. So
//   - gradients of passes under no_sync, or set by hand before the pass, are in the mean,
//     and what an earlier pass left in .grad, unless it was zeroed, is too: as it is
//     equal on all ranks, it comes out as it was;
//   - several averaging passes before one step of the optimiser add up to the right sum, but
//     each has its own exchange; all but the last belong under no_sync;
//   - torch::autograd::grad, which leaves .grad alone, averages nothing.
// With GroupOptions::compress the mean is near that one, and what it lacks comes in later passes,
// so gradients are to be zeroed before each pass that averages. What is left out is the object's,
// and lost with it. A backward pass may go through several modules with an object each; all are
// averaged.
//
// backward() throws Error if it cannot be done; the run is over then, for all ranks:
//   kInvalidArgument     a parameter got no gradient (see find_unused_parameters), or one that is
//                        sparse or not of float32; names it
//   kFailedPrecondition  backward ran within backward (reentrant checkpoints); or it was
//                        not finished before (something else threw in it)
//   others               as those of ProcessGroup's collectives
//
// One thread at a time, that of the group's collectives; backward of CPU tensors runs there.
class GRADWIRE_EXPORT DistributedDataParallel {
 public:
  // All parameters that require a gradient are float32, and all parameters and buffers are
  // on the CPU and contiguous. Names, shapes and types have to be equal on all ranks; values
  // become rank 0's. Which parameters require a gradient is fixed from here on, and so are their
  // tensors. The module and the group are kept. Throws Error: kInvalidArgument of this rank's
  // module, or, with the first difference, if the ranks' modules differ (kAborted on the others).
  DistributedDataParallel(std::shared_ptr<torch::nn::Module> module,
                          std::shared_ptr<ProcessGroup> group, const DDPOptions& options = {});
  // Of a holder (TORCH_MODULE).
  template <typename Contained>
  DistributedDataParallel(const torch::nn::ModuleHolder<Contained>& module,
                          std::shared_ptr<ProcessGroup> group, const DDPOptions& options = {})
      : DistributedDataParallel(std::static_pointer_cast<torch::nn::Module>(module.ptr()),
                                std::move(group), options) {}

  // Detaches; gradients stay as they are.
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  // While it lives, backward passes average nothing: gradients add up in .grad, and the next
  // pass after it averages the sum. May be nested.
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
  // The object outlives the guard.
  [[nodiscard]] NoSyncGuard no_sync();

  // Runs `loop`, a rank's training loop, where ranks have different numbers of batches: one that
  // is through goes on to take part in the others' averaging, with zeros, until all are
  // through; then all have the parameters and buffers of the highest rank that was
  // last. Called by all ranks; costs one more message for each averaging pass. What `loop` throws
  // comes out. Within it no collective of the group may be called.
  void join(const std::function<void()>& loop, const JoinOptions& options = {});

  // For pages, metrics and `gradwire status`: the loss of the next averaging backward pass, and of
  // how many samples.
  void report_loss(double loss, int64_t samples = 0);

  // Averaging backward passes that were completed.
  int64_t steps() const;
  const std::shared_ptr<torch::nn::Module>& module() const;

 private:
  class GRADWIRE_HIDDEN Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gradwire

#endif  // GRADWIRE_DISTRIBUTED_DATA_PARALLEL_H_
