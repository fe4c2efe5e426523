#include "worker/data_parallel/data_parallel.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include "common/base/clock.h"

namespace gradwire {

namespace {

// Returns the message that `task` threw; "" if it did not throw.
std::string ErrorOf(const std::function<void(int)>& task, int device) {
  try {
    task(device);
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

Devices::Devices(int count, int threads, bool kept) : count_(count), threads_(threads) {
  const auto set_threads = [threads] { torch::set_num_threads(threads); };
  for (int device = 1; kept && device < count; ++device) {
    kept_.push_back(std::make_unique<c10::ThreadPool>(1, /*numa_node_id=*/-1, set_threads));
  }
}

std::future<void> Devices::Start(int device, std::function<void()> task) {
  if (kept_.empty()) {
    return std::async(std::launch::async, [this, task = std::move(task)] {
      torch::set_num_threads(threads_);
      task();
    });
  }
  const auto packaged = std::make_shared<std::packaged_task<void()>>(std::move(task));
  kept_[static_cast<size_t>(device - 1)]->run([packaged] { (*packaged)(); });
  return packaged->get_future();
}

std::vector<absl::Duration> Devices::Run(int used, const std::function<void(int)>& task) {
  std::vector<std::string> errors(static_cast<size_t>(used));
  std::vector<absl::Duration> took(static_cast<size_t>(used));
  const auto run = [&errors, &took, &task](int device) {
    Stopwatch watch;
    errors[static_cast<size_t>(device)] = ErrorOf(task, device);
    took[static_cast<size_t>(device)] = watch.Lap();
  };
  std::vector<std::future<void>> others;
  for (int device = 1; device < used; ++device) {
    others.push_back(Start(device, [&run, device] { run(device); }));
  }
  run(0);
  for (std::future<void>& other : others) other.get();
  for (size_t device = 0; device < errors.size(); ++device) {
    TORCH_CHECK(errors[device].empty(), "device ", device, ": ", errors[device]);
  }
  return took;
}

absl::Duration MeanWait(const std::vector<absl::Duration>& busy) {
  const absl::Duration sum = std::accumulate(busy.begin(), busy.end(), absl::ZeroDuration());
  return *std::max_element(busy.begin(), busy.end()) - sum / static_cast<int64_t>(busy.size());
}

namespace {

using torch::autograd::variable_list;

// The autograd node from the gradient of the gathered scores to the gradients of the parameters.
class ThroughDevices : public torch::autograd::Node {
 public:
  using Function = std::function<variable_list(const torch::Tensor&)>;
  explicit ThroughDevices(Function function) : function_(std::move(function)) {}
  variable_list apply(variable_list&& gradients) override { return function_(gradients.front()); }

 private:
  const Function function_;
};

void LinkBack(ThroughDevices::Function function, const variable_list& parameters,
              torch::Tensor* scores) {
  const std::shared_ptr<torch::autograd::Node> node(new ThroughDevices(std::move(function)),
                                                    torch::autograd::deleteNode);
  torch::autograd::edge_list edges;
  for (const torch::Tensor& parameter : parameters) {
    edges.push_back(torch::autograd::impl::gradient_edge(parameter));
  }
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(*scores, node);
}

}  // namespace

absl::StatusOr<std::shared_ptr<DataParallel>> DataParallel::Create(std::shared_ptr<Model> model,
                                                                   const MakeReplica& make,
                                                                   int devices, int threads,
                                                                   Replication replication) {
  std::vector<Replica> on = {ReplicaOf(std::move(model))};
  for (int device = 1; device < devices; ++device) {
    absl::StatusOr<std::shared_ptr<Model>> replica = make();
    if (!replica.ok()) return replica.status();
    on.push_back(ReplicaOf(*std::move(replica)));
  }
  return std::shared_ptr<DataParallel>(new DataParallel(std::move(on), threads, replication));
}

DataParallel::DataParallel(std::vector<Replica> on, int threads, Replication replication)
    : replication_(replication),
      on_(std::move(on)),
      devices_(static_cast<int>(on_.size()), threads, replication == Replication::kNative),
      busy_(on_.size()) {
  register_module("module", on_[0].model);
}

DataParallel::Replica DataParallel::ReplicaOf(std::shared_ptr<Model> model) {
  Replica replica = {model, model->parameters(), {}, model->trained_buffers()};
  for (const torch::Tensor& parameter : replica.tensors) {
    if (parameter.requires_grad()) replica.trained.push_back(parameter);
  }
  for (const torch::Tensor& buffer : model->buffers()) replica.tensors.push_back(buffer);
  return replica;
}

torch::Tensor DataParallel::forward(torch::Tensor images) {
  Stopwatch watch;
  const std::vector<torch::Tensor> shares = Scatter(images);
  Replicate(static_cast<int>(shares.size()));
  in_forward_ += watch.Lap();
  const std::vector<torch::Tensor> outputs = Apply(shares);
  watch.Lap();
  torch::Tensor scores = Gather(outputs);
  in_forward_ += watch.Lap();
  if (outputs[0].requires_grad()) {
    LinkBack([this, outputs](const torch::Tensor& gradient) { return Backward(outputs, gradient); },
             on_[0].trained, &scores);
  }
  return scores;
}

std::vector<torch::Tensor> DataParallel::Scatter(const torch::Tensor& batch) {
  std::vector<torch::Tensor> shares = batch.chunk(devices_.count());
  for (size_t device = 1; device < shares.size(); ++device) {
    shares[device] = shares[device].clone();
    bytes_moved_ += shares[device].nbytes();
  }
  return shares;
}

void DataParallel::Replicate(int used) {
  const torch::NoGradGuard values_only;
  const Replica& original = on_[0];
  const bool vanilla = replication_ == Replication::kVanilla;
  for (size_t device = 1; device < static_cast<size_t>(used); ++device) {
    Replica& replica = on_[device];
    if (replica.model->is_training() != original.model->is_training()) {
      replica.model->train(original.model->is_training());
    }
    for (size_t i = 0; i < original.tensors.size(); ++i) {
      Give(original.tensors[i], vanilla, &replica.tensors[i]);
    }
    for (size_t i = 0; !vanilla && i < original.statistics.size(); ++i) {
      Give(original.statistics[i], /*copied=*/true, &replica.statistics[i]);
    }
  }
}

void DataParallel::Give(const torch::Tensor& from, bool copied, torch::Tensor* to) {
  to->set_data(copied ? from.detach().clone() : from.detach());
  if (copied) bytes_moved_ += from.nbytes();
}

std::vector<torch::Tensor> DataParallel::Apply(const std::vector<torch::Tensor>& shares) {
  const bool with_graph = torch::GradMode::is_enabled();
  std::vector<torch::Tensor> outputs(shares.size());
  Compute(shares.size(), [&](size_t index) {
    const torch::AutoGradMode grad_mode(with_graph);
    outputs[index] = on_[index].model->forward(shares[index]);
  });
  return outputs;
}

void DataParallel::Compute(size_t used, const std::function<void(size_t)>& task) {
  const std::vector<absl::Duration> took = devices_.Run(
      static_cast<int>(used), [&task](int device) { task(static_cast<size_t>(device)); });
  for (size_t device = 0; device < used; ++device) busy_[device] += took[device];
}

torch::Tensor DataParallel::Gather(const std::vector<torch::Tensor>& outputs) {
  const torch::NoGradGuard values_only;
  for (size_t device = 1; device < outputs.size(); ++device) {
    bytes_moved_ += outputs[device].nbytes();
  }
  return torch::cat(outputs);
}

variable_list DataParallel::Backward(const std::vector<torch::Tensor>& outputs,
                                     const torch::Tensor& gradient) {
  Stopwatch watch;
  const std::vector<torch::Tensor> shares = Scatter(gradient);
  in_backward_ += watch.Lap();
  std::vector<variable_list> gradients(shares.size());
  Compute(shares.size(), [&](size_t index) {
    gradients[index] = torch::autograd::grad({outputs[index]}, on_[index].trained, {shares[index]},
                                             /*retain_graph=*/false, /*create_graph=*/false,
                                             /*allow_unused=*/true);
  });
  watch.Lap();
  variable_list sums = AddUp(std::move(gradients));
  in_backward_ += watch.Lap();
  return sums;
}

// A parameter that no device used has no gradient.
variable_list DataParallel::AddUp(std::vector<variable_list> gradients) {
  const torch::NoGradGuard values_only;
  variable_list sums = std::move(gradients[0]);
  for (size_t device = 1; device < gradients.size(); ++device) {
    for (size_t i = 0; i < sums.size(); ++i) {
      const torch::Tensor& gradient = gradients[device][i];
      if (!gradient.defined()) continue;
      bytes_moved_ += gradient.nbytes();
      sums[i] = sums[i].defined() ? sums[i] + gradient : gradient;
    }
    gradients[device].clear();
  }
  return sums;
}

PhaseTimes DataParallel::TakeTimes() {
  PhaseTimes times;
  times[Phase::kCommunication] = in_forward_ + in_backward_;
  times[Phase::kExposedCommunication] = times[Phase::kCommunication];
  times[Phase::kForward] = -std::exchange(in_forward_, absl::ZeroDuration());
  times[Phase::kBackward] = -std::exchange(in_backward_, absl::ZeroDuration());
  if (steps_++ > 0) barriers_ += MeanWait(busy_);
  std::fill(busy_.begin(), busy_.end(), absl::ZeroDuration());
  return times;
}

absl::Duration DataParallel::mean_barrier() const {
  return steps_ > 1 ? barriers_ / (steps_ - 1) : absl::ZeroDuration();
}

}  // namespace gradwire
