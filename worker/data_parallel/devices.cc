#include "worker/data_parallel/devices.h"

#include <torch/torch.h>

#include <exception>
#include <string>
#include <utility>

namespace gradwire {
namespace {

// What `task` threw; "" if it did not.
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

void Devices::Run(int used, const std::function<void(int)>& task) {
  std::vector<std::string> errors(static_cast<size_t>(used));
  std::vector<std::future<void>> others;
  for (int device = 1; device < used; ++device) {
    others.push_back(Start(device, [&errors, &task, device] {
      errors[static_cast<size_t>(device)] = ErrorOf(task, device);
    }));
  }
  errors[0] = ErrorOf(task, 0);
  for (std::future<void>& other : others) other.get();
  for (size_t device = 0; device < errors.size(); ++device) {
    TORCH_CHECK(errors[device].empty(), "device ", device, ": ", errors[device]);
  }
}

}  // namespace gradwire
