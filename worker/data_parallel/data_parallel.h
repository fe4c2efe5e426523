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

// Groups of compute threads of this process, which work independently:
//
//   device 0        the thread that calls Run, with its intra-op threads
//   device 1, 2 …   a thread each, with as many intra-op threads
//
// Not thread-safe.
class Devices {
 public:
  // `count` devices, at least 1, with `threads` compute threads each; the caller of Run has set its
  // own. `kept`: threads last as long as this object; else each Run makes new ones.
  Devices(int count, int threads, bool kept);

  int count() const { return count_; }

  // Calls task(d) on device d, for 0 ≤ d < `used` ≤ count() at the same time, and returns when all
  // have ended: how long each took. If tasks threw, throws a c10::Error with the message and number
  // of the lowest such device.
  std::vector<absl::Duration> Run(int used, const std::function<void(int)>& task);

 private:
  // `task` must catch its exceptions.
  std::future<void> Start(int device, std::function<void()> task);

  const int count_;
  const int threads_;
  std::vector<std::unique_ptr<c10::ThreadPool>> kept_;  // devices 1, 2 …; empty unless kept
};

// Returns how long a device waits for the slowest one at a barrier, on average. `busy`: how long
// each computed; not empty.
absl::Duration MeanWait(const std::vector<absl::Duration>& busy);

// How devices get the model for each batch.
enum class Replication {
  // Keep threads and replicas. All devices share one memory, so replicas read the model's own
  // parameters; only buffers that training changes are copied.
  kNative,
  // Replicate, scatter, parallel apply and gather explicitly: new copies of all tensors and new
  // threads for each batch.
  kVanilla,
};

// A model whose batches are divided among the devices of this process, as in torch.nn.DataParallel:
//
//   images ─ scatter ─┬─ device 0: the model itself ─┬─ gather ─► scores of the whole batch
//                     ├─ device 1: a replica         ┤
//                     └─ device 2: a replica         ┘
//
// Backward runs the other way: each device computes the gradients of its share; they are added in
// the order of the devices and go to the model's parameters. Scores and gradients equal those of
// one device, except for rounding. BatchNorm normalizes each share separately, and the model's
// statistics are those of device 0. Dropout draws from one generator, in the order in which devices
// reach it.
//
// Shares have ceil(N / devices) samples, and the last one the rest: a small batch may not reach all
// devices. Data to or from a device other than 0 is copied, and counted. The functions throw
// c10::Error, like any model, if a device threw. Not thread-safe; backward of scores must run
// before the next forward pass.
class DataParallel : public Model {
 public:
  using MakeReplica = std::function<absl::StatusOr<std::shared_ptr<Model>>()>;

  // `make` returns models like `model`, with any weights. `threads`: of each device. Errors: those
  // of `make`.
  static absl::StatusOr<std::shared_ptr<DataParallel>> Create(std::shared_ptr<Model> model,
                                                              const MakeReplica& make, int devices,
                                                              int threads, Replication replication);

  torch::Tensor forward(torch::Tensor images) override;
  ImageShape image_shape() const override { return on_[0].model->image_shape(); }
  std::vector<torch::Tensor> trained_buffers() const override { return on_[0].statistics; }

  // Returns the time of replicating, scattering, gathering and adding since the last call. It is
  // communication, all of it exposed, and is not included in the times of the forward and backward
  // passes in which it was measured: add it to them. Call it once, at the end of each step.
  PhaseTimes TakeTimes();
  // Returns how long a device would wait at a barrier after a step, in which it computed without
  // waiting for others: the mean over the devices and over all steps except the first; zero before
  // the second step.
  absl::Duration mean_barrier() const;
  // Returns the bytes between devices since the beginning.
  uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  // A device's model.
  struct Replica {
    std::shared_ptr<Model> model;
    std::vector<torch::Tensor> tensors;     // parameters, then buffers
    std::vector<torch::Tensor> trained;     // of the parameters
    std::vector<torch::Tensor> statistics;  // buffers that training changes
  };

  DataParallel(std::vector<Replica> on, int threads, Replication replication);
  static Replica ReplicaOf(std::shared_ptr<Model> model);
  // Returns the shares by device, for as many devices as are used.
  std::vector<torch::Tensor> Scatter(const torch::Tensor& batch);
  void Replicate(int used);
  // Runs `task` on the first `used` devices and adds its times to busy_.
  void Compute(size_t used, const std::function<void(size_t)>& task);
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
  absl::Duration in_forward_, in_backward_;  // communication since TakeTimes
  std::vector<absl::Duration> busy_;         // by device, since TakeTimes
  int64_t steps_ = 0;
  absl::Duration barriers_;  // of all steps except the first
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_PARALLEL_DATA_PARALLEL_H_
