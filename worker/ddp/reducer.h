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

// Who updates the parameters, and with what.
enum class Updater {
  kAll,  // all workers alike, with the mean over all ranks
  // Each rank a model of its own, with its own gradient; what exchanges the models keeps them near
  // each other (see LocalSync). A rank's parameters take turns with the module, as its buffers do.
  // Buffers are not broadcast then, a rank's terms last until the next rank's pass, there is no
  // mean, and nothing is contributed here.
  kRank,
  // Aggregators keep the model and train it (v1.Serving): what NextBucket gives are not means but
  // the parameters themselves. All ranks contribute their buffers.
  kServer,
};

struct ReducerOptions {
  // A bucket is closed when it holds so much (the first one: 1 MiB or more); 0: a
  // bucket for each parameter.
  double bucket_cap_bytes = 25 << 20;
  // Whether the buffers of rank 0 travel with each step's gradients to all ranks.
  bool broadcast_buffers = true;
  // Whether a parameter's .grad stays where it is once its value is in the terms.
  // False: it is taken away then, which saves memory; the optimiser reads mean().
  bool keep_grad = false;
  Updater updater = Updater::kAll;
  // Whether steps may be undone (see Rewind) though buffers are not broadcast: then Keep must be
  // called once for each step, in order. Keeps up to two more copies of each rank's buffers.
  bool undoable = false;
};

// The part of data-parallel training that knows of gradients, buffers and an Exchange, and
// of nothing else: no loss, no data, no optimiser. It serves any module.
//
//   autograd ─► .grad ─► terms, of each rank that this worker carries ─┐
//                        buffers of rank 0 ────────────────────────────┤ Exchange
//   optimiser or .grad ◄─ mean ◄───────────────────────────────────────┘
//
// Gradients travel in buckets of whole parameters, in the reverse order of the parameters,
// which is about that of backward. Bucket i < gradient_buckets() is one of them; the bucket
// behind them, if there is one, holds the buffers. Use, in every step:
//
//   BeginStep(step)
//   for each carried rank, in their order:
//     BeginForward(rank)  forward passes  EndForward(rank)
//     BeginPass(rank, …)  loss.backward() EndPass()
//       within, or behind it: Contribute(bucket, rank) for each bucket
//   NextBucket() for each bucket: its mean is there
//
// A rank's forward and backward passes may take turns. Backward passes outside of
// BeginPass and EndPass add up in .grad, as without a reducer; the pass inside takes their
// sum as the rank's terms.
//
// The results of a step have to be there (NextBucket gave all of them, or Abandon returned)
// before its terms change again: before BeginPass of the next step. Not before: a forward
// pass of the next step may run while they come in.
//
// Not thread-safe: one thread calls, and backward runs on it (autograd on the CPU runs on
// the thread that calls backward). The exchange's threads read terms and write means.
class Reducer {
 public:
  // `parameters` and `buffers` in registration order; they are shared, not copied.
  // Parameters that require no gradient, or are empty, are left out of all buckets.
  //   InvalidArgument  a parameter is not float32, or it or a buffer is not on the CPU or
  //                    not contiguous; names its index
  static absl::StatusOr<std::unique_ptr<Reducer>> Create(std::vector<torch::Tensor> parameters,
                                                         std::vector<torch::Tensor> buffers,
                                                         const ReducerOptions& options);
  // Takes the hooks away. No transfer is under way (see Abandon).
  ~Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // The layout, in float32, to be declared and given to Exchange::AddLayout.
  std::vector<BucketSpec> BucketSpecs() const;
  // All buckets: those of gradients, and that of the buffers if they are broadcast.
  size_t bucket_count() const { return gradient_buckets() + (buffers_.travel() ? 1 : 0); }
  size_t gradient_buckets() const { return gradient_.bucket_count(); }
  // The parameters of a gradient bucket, in its order.
  std::vector<torch::Tensor> ParametersOf(size_t bucket) const {
    return gradient_.ParametersOf(bucket);
  }
  // Where they stand among Create's `parameters`.
  std::vector<size_t> IndicesOf(size_t bucket) const { return gradient_.IndicesOf(bucket); }
  // The bucket that `parameter` is in; none if it was left out.
  absl::optional<size_t> BucketOf(const torch::Tensor& parameter) const {
    return gradient_.BucketOf(parameter);
  }

  // To be called before the first step, and again with the exchange of a new view, when no
  // transfer is under way; before the first call, rank 0 is carried and Contribute must not
  // be called. `exchange` (null with models of their own), which knows `layout` (see
  // Exchange::AddLayout), is used until the next Attach. `ranks`: those that this worker carries,
  // ascending, one or more. Each starts from the buffers, or model, that the module has now; after
  // Rewind, a rank that this worker carried before starts from its own, unless they are broadcast.
  void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks);
  absl::Span<const Rank> ranks() const { return ranks_; }
  Updater updater() const { return updater_; }

  // All buckets of `step` are to be contributed; those of the step before are through.
  // Steps follow each other from 0 in each layout of a run. The step's exchange may take
  // `timeout` from its first Contribute on.
  // Of a model that is served, step 0 of the layout is what StartServed exchanges.
  void BeginStep(Step step, absl::Duration timeout) {
    exchange_.Begin(Step(step.value() + (updater_ == Updater::kServer ? 1 : 0)), timeout);
  }

  // Of a model that is served, once, after Attach: rank 0's parameters and buffers go where they
  // will be kept, and all ranks get them from there. Errors as NextBucket; nothing is under way
  // then.
  absl::Status StartServed(absl::Duration timeout);

  // The module's buffers, or all of it, become what `rank` starts from: of buffers what rank 0 had
  // after the step before, if they are broadcast; else what `rank` itself had. Costs nothing if
  // this worker carries one rank. The bucket of buffers of the step before must have been given by
  // NextBucket. Also for an evaluation as `rank` sees it, after the last step.
  void BeginForward(Rank rank) { buffers_.Load(IndexOf(rank)); }
  // The last forward pass of `rank` in this step is through: its buffers are kept, and, if
  // they are broadcast and `rank` is 0, are what the others get.
  // Of models of their own: the rank's update is through, so its model is what it is going to be.
  void EndForward(Rank rank) { buffers_.Store(IndexOf(rank)); }

  // The next backward pass makes the terms of `rank`; `listener` hears of it. In its on_begin
  // the engine takes a callback for the end of the pass:
  // torch::autograd::Engine::get_default_engine().queue_callback.
  void BeginPass(Rank rank, PassListener listener) {
    hooks_.Begin(TermsOf(rank), std::move(listener));
  }
  // After that pass: the terms of parameters that got no gradient in it become what .grad
  // has from passes before, or zero.
  //   InvalidArgument     a gradient is sparse or not float32; names the parameter's index
  //   FailedPrecondition  backward ran twice since BeginPass, or within itself
  // After an error the rank's terms hold anything. Ends the pass, also if there was none.
  absl::Status EndPass() { return hooks_.End(); }
  // Indices (of Create's `parameters`) of those that got no gradient in the last pass.
  // Within and after the pass, also after EndPass.
  std::vector<size_t> Unused() const { return hooks_.Unused(); }
  // After EndPass: those of them whose .grad had nothing of passes before either.
  std::vector<size_t> WithoutGradient() const { return hooks_.WithoutGradient(); }
  // In place of a pass: this rank has no data any more, and adds nothing to the mean.
  void ZeroTerms(Rank rank);

  // Gives the exchange what `rank` puts into a bucket of the step. The terms of the rank,
  // or, for the bucket of buffers, EndForward(rank), have to be there. Of the buffers only
  // rank 0 puts something in, but this has to be called by every worker. Once for each
  // bucket and rank, in the same order of buckets on all workers.
  void Contribute(size_t bucket, Rank rank);
  // Contribute for all that was not contributed: bucket by bucket, in their order.
  void ContributeRest(absl::Span<const Rank> ranks);

  // Takes a bucket whose result is there and that was not given yet; the highest, if there
  // are several, for its parameters are wanted first by a forward pass. Waits if there
  // is none. If it is that of the buffers, the module has them now.
  //   FailedPrecondition  none is under way either
  //   DeadlineExceeded    the timeout passed, and the exchange said nothing
  //   or the first error of the step's transfers; see Exchange::Done
  // After an error other transfers may be under way still; see Abandon.
  absl::StatusOr<size_t> NextBucket();

  // The mean over all ranks of a gradient bucket that NextBucket gave: one dimension,
  // parameter after parameter. Valid until the next step contributes that bucket.
  torch::Tensor mean(size_t bucket) const { return gradient_.mean(bucket); }
  // The part of it that belongs to ParametersOf(bucket)[index], in its shape.
  torch::Tensor mean(size_t bucket, size_t index) const { return gradient_.mean(bucket, index); }
  // Of a model that is served: the parameters of a gradient bucket that NextBucket gave become what
  // came.
  void TakeParameters(size_t bucket);
  // A rank's own terms, after EndPass; one dimension, never to be written.
  torch::Tensor terms(size_t bucket, Rank rank) const {
    return gradient_.terms(TermsOf(rank), bucket);
  }

  // The step of which NextBucket gave buckets last will not be computed anew.
  void Keep() { buffers_.Keep(); }
  // After Abandon, and before Attach: it will be, or, after Keep, the one behind it. The module
  // gets the buffers that it began with; of each rank's own (see ReducerOptions::undoable), those
  // of the first carried rank. Parameters are not touched.
  void Rewind() { buffers_.Rewind(); }

  // The step will not be completed. On return no transfer uses this object's memory any
  // more; if one did, the exchange is cancelled with `reason` (not OK). Ends a pass, too.
  void Abandon(const absl::Status& reason);

  // Of the step.
  PhaseTimes times() const { return exchange_.times(); }

 private:
  Reducer(std::vector<torch::Tensor> parameters, std::vector<torch::Tensor> buffers,
          const ReducerOptions& options);
  size_t IndexOf(Rank rank) const;
  // Which terms a rank's pass makes.
  size_t TermsOf(Rank rank) const { return own_models() ? 0 : IndexOf(rank); }

  bool own_models() const { return updater_ == Updater::kRank; }

  absl::Status ContributeAndTakeModel();

  const Updater updater_;
  FlatGradient gradient_;
  RankBuffers buffers_;
  GradientHooks hooks_;
  BucketTracker exchange_;
  std::vector<Rank> ranks_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_REDUCER_H_
