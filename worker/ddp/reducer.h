#ifndef GRADWIRE_WORKER_DDP_REDUCER_H_
#define GRADWIRE_WORKER_DDP_REDUCER_H_

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "worker/backends/exchange.h"
#include "worker/ddp/bucket_tracker.h"
#include "worker/ddp/flat_gradient.h"
#include "worker/ddp/gradient_hooks.h"
#include "worker/ddp/rank_buffers.h"

namespace gradwire {

// How parameters are updated.
enum class Updater {
  kAll,  // all workers make the same update with the mean over all ranks
  // Each rank has its own model and applies its own gradient; exchanges of the models keep them
  // close (see LocalSync). The parameters of the ranks take turns in the module, as buffers do.
  // Buffers are not broadcast, a rank's terms last until the next rank's pass, there is no mean,
  // and nothing is contributed here.
  kRank,
  // Aggregators keep the model and train it (v1.Serving): NextBucket gives the parameters, not
  // means. All ranks contribute their buffers.
  kServer,
};

struct ReducerOptions {
  // Size of a complete bucket (the first one: 1 MiB or more); 0: a bucket for each parameter.
  double bucket_cap_bytes = 25 << 20;
  // Whether each step sends rank 0's buffers with the gradients to all ranks.
  bool broadcast_buffers = true;
  // Whether a parameter's .grad stays after it is copied to the terms. False: it is removed, which
  // saves memory; the optimizer reads mean().
  bool keep_grad = false;
  Updater updater = Updater::kAll;
  // Whether the mean is only read, so that it may lie where the exchange has it (see
  // Exchange::ResultMemory). Else it is this object's own.
  bool only_reads_mean = false;
  // Whether steps may be undone (see Rewind) if buffers are not broadcast. Keep must then be called
  // once for each step, in order. Keeps up to two more copies of each rank's buffers.
  bool undoable = false;
};

// The part of data-parallel training that handles only gradients, buffers and an Exchange: no loss,
// no data, no optimizer. It serves any module.
//
//   autograd ─► .grad ─► terms, of each rank that this worker carries ─┐
//                        buffers of rank 0 ────────────────────────────┤ Exchange
//   optimizer or .grad ◄─ mean ◄───────────────────────────────────────┘
//
// Gradients are sent in buckets of whole parameters, in the reverse order of the parameters, which
// is about the order of backward. Buckets i < gradient_buckets() hold gradients; one more bucket
// may hold the buffers. Use, in every step:
//
//   BeginStep(step)
//   for each carried rank, in order:
//     BeginForward(rank)  forward passes  EndForward(rank)
//     BeginPass(rank, …)  loss.backward() EndPass()
//       within, or after it: Contribute(bucket, rank) for each bucket
//   NextBucket() for each bucket: its mean is there
//
// A rank's forward and backward passes may alternate. Backward passes outside of BeginPass and
// EndPass add up in .grad, as without a reducer; the pass inside takes their sum as the rank's
// terms.
//
// The results of a step must be complete (NextBucket gave all of them, or Abandon returned) before
// its terms change again, at BeginPass of the next step. A forward pass of the next step may run
// earlier, while they arrive.
//
// Not thread-safe: one thread calls, and backward runs on it (autograd on the CPU runs on the
// calling thread). The exchange's threads read terms and write means.
class Reducer {
 public:
  // `parameters` and `buffers` in registration order; they are shared, not copied. Parameters that
  // require no gradient, or are empty, are in no bucket.
  //   InvalidArgument  a parameter is not float32, or it or a buffer is not contiguous and on the
  //                    CPU; names its index
  static absl::StatusOr<std::unique_ptr<Reducer>> Create(std::vector<torch::Tensor> parameters,
                                                         std::vector<torch::Tensor> buffers,
                                                         const ReducerOptions& options);
  // Removes the hooks. No transfer may be under way (see Abandon).
  ~Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Returns the layout, in float32, for the declaration and Exchange::AddLayout.
  std::vector<BucketSpec> BucketSpecs() const;
  // The number of all buckets: gradients, and the buffers if they are broadcast.
  size_t bucket_count() const { return gradient_buckets() + (buffers_.travel() ? 1 : 0); }
  size_t gradient_buckets() const { return gradient_.bucket_count(); }
  // Returns the parameters of a gradient bucket, in its order.
  std::vector<torch::Tensor> ParametersOf(size_t bucket) const {
    return gradient_.ParametersOf(bucket);
  }
  // Returns their indices in Create's `parameters`.
  std::vector<size_t> IndicesOf(size_t bucket) const { return gradient_.IndicesOf(bucket); }
  // Returns the bucket of `parameter`; none if it was left out.
  absl::optional<size_t> BucketOf(const torch::Tensor& parameter) const {
    return gradient_.BucketOf(parameter);
  }

  // Call it before the first step, and again with the exchange of a new view, when no transfer is
  // under way. Before the first call, rank 0 is carried and Contribute must not be called.
  // `exchange` (null if ranks have their own models) knows `layout` (see Exchange::AddLayout) and
  // is used until the next Attach. `ranks`: carried by this worker, ascending, one or more. Each
  // starts with the module's buffers, or model. Exception: after Rewind, a rank that this worker
  // carried before starts from its own, unless they are broadcast.
  void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks);
  absl::Span<const Rank> ranks() const { return ranks_; }
  Updater updater() const { return updater_; }

  // Begins a step: all its buckets must be contributed; those of the previous step must be
  // complete. Steps count from 0 in each layout of a run. The exchange must finish within `timeout`
  // from the first Contribute. With a served model, step 0 of the layout is the exchange of
  // StartServed.
  void BeginStep(Step step, absl::Duration timeout) {
    exchange_.Begin(Step(step.value() + (updater_ == Updater::kServer ? 1 : 0)), timeout);
  }

  // With a served model, once, after Attach: sends rank 0's parameters and buffers to the
  // aggregators, and all ranks get them from there. Errors: those of NextBucket; nothing is under
  // way then.
  absl::Status StartServed(absl::Duration timeout);

  // Sets the module's buffers, or its whole state, to the start of `rank`: rank 0's buffers after
  // the previous step if they are broadcast, else the rank's own. Costs nothing if this worker
  // carries one rank. NextBucket must have returned the previous step's bucket of buffers. Also for
  // an evaluation of `rank` after the last step.
  void BeginForward(Rank rank) { buffers_.Load(IndexOf(rank)); }
  // The last forward pass of `rank` in this step is done: keeps its buffers; if they are broadcast
  // and `rank` is 0, the others get them. With own models: the rank's update is done, and its model
  // is final.
  void EndForward(Rank rank) { buffers_.Store(IndexOf(rank)); }

  // The next backward pass computes the terms of `rank`; `listener` gets its events. The engine
  // accepts a callback for the end of the pass in on_begin:
  // torch::autograd::Engine::get_default_engine().queue_callback.
  void BeginPass(Rank rank, PassListener listener) {
    hooks_.Begin(TermsOf(rank), std::move(listener));
  }
  // Ends that pass, if there was one: terms of parameters without a gradient in it become their
  // .grad from earlier passes, or zero. After an error the rank's terms are undefined.
  //   InvalidArgument     a gradient is sparse or not float32; names the parameter's index
  //   FailedPrecondition  backward ran twice since BeginPass, or within itself
  absl::Status EndPass() { return hooks_.End(); }
  // Returns the indices (of Create's `parameters`) of parameters without a gradient in the last
  // pass. Call it within or after the pass, also after EndPass.
  std::vector<size_t> Unused() const { return hooks_.Unused(); }
  // After EndPass: returns those of them without a gradient from earlier passes, too.
  std::vector<size_t> WithoutGradient() const { return hooks_.WithoutGradient(); }
  // Replaces a pass: this rank has run out of data, and adds nothing to the mean.
  void ZeroTerms(Rank rank);

  // Contributes the data of `rank` to a bucket of the step: its terms, or, for the bucket of
  // buffers, the buffers of EndForward(rank); they must be complete. Only rank 0 contributes
  // buffers, but every worker must make this call. Once for each bucket and rank, in the same order
  // of buckets on all workers.
  void Contribute(size_t bucket, Rank rank);
  // Calls Contribute for all that is not contributed, bucket by bucket, in order.
  void ContributeRest(absl::Span<const Rank> ranks);

  // Returns a bucket whose result is there and that was not returned yet: the highest, because a
  // forward pass needs its parameters first. Waits if there is none. If it is the bucket of
  // buffers, the module has them now. After an error other transfers may still be under way; see
  // Abandon.
  //   FailedPrecondition  none is under way either
  //   DeadlineExceeded    the timeout passed, and the exchange stayed silent
  //   or the first error of the step's transfers; see Exchange::Done
  absl::StatusOr<size_t> NextBucket();

  // Returns the mean over all ranks of a gradient bucket that NextBucket returned: one dimension,
  // parameter after parameter. Valid until the next step contributes that bucket. With
  // only_reads_mean, never write to it.
  torch::Tensor mean(size_t bucket) const { return gradient_.mean(bucket); }
  // Returns the part of it for ParametersOf(bucket)[index], in its shape.
  torch::Tensor mean(size_t bucket, size_t index) const { return gradient_.mean(bucket, index); }
  // With a served model: sets the parameters of a gradient bucket that NextBucket returned to the
  // values that arrived.
  void TakeParameters(size_t bucket);
  // Returns a rank's own terms, after EndPass; one dimension. They may be changed in place until
  // Contribute(bucket, rank), never after it.
  torch::Tensor terms(size_t bucket, Rank rank) const {
    return gradient_.terms(TermsOf(rank), bucket);
  }

  // The step of the last NextBucket will not be computed again.
  void Keep() { buffers_.Keep(); }
  // After Abandon, and before Attach: that step, or, after Keep, the next one, will be computed
  // again. The module gets the buffers from its start; with each rank's own buffers (see
  // ReducerOptions::undoable), those of the first carried rank. Does not touch parameters.
  void Rewind() { buffers_.Rewind(); }

  // Gives up the step, and ends a pass. On return no transfer uses this object's memory; if one
  // did, the exchange is cancelled with `reason` (not OK).
  void Abandon(const absl::Status& reason);

  // Returns the times of the step.
  PhaseTimes times() const { return exchange_.times(); }

 private:
  Reducer(std::vector<torch::Tensor> parameters, std::vector<torch::Tensor> buffers,
          const ReducerOptions& options);
  size_t IndexOf(Rank rank) const;
  // Returns the index of the terms of a rank's pass.
  size_t TermsOf(Rank rank) const { return own_models() ? 0 : IndexOf(rank); }

  bool own_models() const { return updater_ == Updater::kRank; }

  absl::Status ContributeAndTakeModel();

  const Updater updater_;
  const bool only_reads_mean_;
  FlatGradient gradient_;
  RankBuffers buffers_;
  GradientHooks hooks_;
  BucketTracker exchange_;
  std::vector<Rank> ranks_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_REDUCER_H_
