#ifndef GRADWIRE_WORKER_DATA_PARALLEL_DATA_PARALLEL_H_
#define GRADWIRE_WORKER_DATA_PARALLEL_DATA_PARALLEL_H_

#include <c10/core/thread_pool.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/telemetry/phases.h"
#include "worker/models/model.h"

namespace gradwire {

// Groups of compute threads of this process, each of which works on its own:
//
//   device 0        the thread that calls Run, with its intra-op threads
//   device 1, 2 …   a thread each, with as many intra-op threads
//
// Not thread-safe.
class Devices {
 public:
  // `count` devices, at least 1, of `threads` compute threads each; the caller of Run has set
  // its own. `kept`: threads last as long as this object; else each Run makes new ones.
  Devices(int count, int threads, bool kept);

  int count() const { return count_; }

  // Calls task(d) on device d, for 0 ≤ d < `used` ≤ count() at the same time, and returns when
  // all have ended. Throws a c10::Error if a task threw: what the lowest device said, and
  // which one that was.
  void Run(int used, const std::function<void(int)>& task);

 private:
  // `task` catches what it throws itself.
  std::future<void> Start(int device, std::function<void()> task);

  const int count_;
  const int threads_;
  std::vector<std::unique_ptr<c10::ThreadPool>> kept_;  // of device 1, 2 …; none unless kept
};

// How devices get the model for each batch.
enum class Replication {
  // Threads and replicas are kept. All devices have one memory, so replicas read the model's
  // own parameters, and get copies of those buffers alone that training changes.
  kNative,
  // Replicate, scatter, parallel apply, gather, written out: new copies of all tensors and
  // new threads for each batch.
  kVanilla,
};

// A model whose batches are divided among the devices of this process, as torch.nn.DataParallel
// divides them:
//
//   images ─ scatter ─┬─ device 0: the model itself ─┬─ gather ─► scores of the whole batch
//                     ├─ device 1: a replica         ┤
//                     └─ device 2: a replica         ┘
//
// and backward the other way: each device computes the gradients of its share, which are added
// up in the order of the devices and go to the model's parameters. Scores and gradients are
// those of one device but for rounding. BatchNorm normalises each share by itself, and the
// model's statistics are those of device 0. Dropout draws from one generator, in whatever order
// devices come to it.
//
// Shares have ceil(N / devices) samples, the last one what is left: a small batch may not reach
// all devices. What a device other than 0 gets or gives is copied, and counted. The functions
// throw c10::Error, as any model's, if one device did. Not thread-safe; scores are gone through
// backward before the next forward pass.
class DataParallel : public Model {
 public:
  using MakeReplica = std::function<absl::StatusOr<std::shared_ptr<Model>>()>;

  // `make` gives models like `model`, whose weights do not matter. `threads`: of each device.
  // Errors: those of `make`.
  static absl::StatusOr<std::shared_ptr<DataParallel>> Create(std::shared_ptr<Model> model,
                                                              const MakeReplica& make, int devices,
                                                              int threads, Replication replication);

  torch::Tensor forward(torch::Tensor images) override;
  ImageShape image_shape() const override { return on_[0].model->image_shape(); }
  std::vector<torch::Tensor> trained_buffers() const override { return on_[0].statistics; }

  // What replicating, scattering, gathering and adding up took since the last call: it is
  // communication, all of it exposed, and no part of the forward and backward passes in which
  // it was measured, so that this is to be added to their times.
  PhaseTimes TakeTimes();
  // Between devices, since the beginning.
  uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  // A device's model.
  struct Replica {
    std::shared_ptr<Model> model;
    std::vector<torch::Tensor> tensors;     // parameters, then buffers
    std::vector<torch::Tensor> trained;     // of the parameters
    std::vector<torch::Tensor> statistics;  // of the buffers, those that training changes
  };

  DataParallel(std::vector<Replica> on, int threads, Replication replication);
  static Replica ReplicaOf(std::shared_ptr<Model> model);
  // By device; as many as are used.
  std::vector<torch::Tensor> Scatter(const torch::Tensor& batch);
  void Replicate(int used);
  void Give(const torch::Tensor& from, bool copied, torch::Tensor* to);
  std::vector<torch::Tensor> Apply(const std::vector<torch::Tensor>& shares);
  torch::Tensor Gather(const std::vector<torch::Tensor>& outputs);
  torch::autograd::variable_list Backward(const std::vector<torch::Tensor>& outputs,
                                          const torch::Tensor& gradient);
  torch::autograd::variable_list AddUp(std::vector<torch::autograd::variable_list> gradients);

  const Replication replication_;
  std::vector<Replica> on_;  // by device
  Devices devices_;
  uint64_t bytes_moved_ = 0;
  absl::Duration in_forward_, in_backward_;  // of communication, since TakeTimes
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_PARALLEL_DATA_PARALLEL_H_
