// The only unit of the back ends that sees c10d.
#include <ATen/ops/from_blob.h>

#include <csignal>
#include <exception>
#include <memory>
#include <regex>
#include <set>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/backends/gloo/engine.h"
#include "worker/backends/gloo/engine/abortable_device.h"
#include "worker/backends/gloo/engine/c10d_store.h"

namespace gradwire {
namespace {

using Tensors = std::vector<at::Tensor>;
using Work = c10::intrusive_ptr<c10d::Work>;

// Deadlines are the back end's; gloo's own timeouts would be a second set.
constexpr std::chrono::hours kNoTimeout(24);
// As torch.distributed has it: so many operations at a time, of each group.
constexpr int kThreads = 2;

// Without the source line in front and the trace behind: "Connection closed by peer …".
std::string Words(const std::string& what) {
  const std::string first_line = what.substr(0, what.find('\n'));
  return std::regex_replace(first_line, std::regex(R"(^\[[^\]]*\.cc:\d+\] )"), "");
}

at::Tensor TensorOf(absl::Span<uint8_t> bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

// One list, or none on ranks that have no parts.
std::vector<Tensors> TensorsOf(const std::vector<absl::Span<uint8_t>>& parts) {
  if (parts.empty()) return {};
  Tensors tensors;
  for (const absl::Span<uint8_t> part : parts) tensors.push_back(TensorOf(part));
  return {tensors};
}

absl::Status StatusOf(const std::exception& error) {
  return absl::UnavailableError(Words(error.what()));
}

// A group is one of ProcessGroupGloo's devices: it makes connections for each of them, and its
// operations take turns on these.
class C10dEngine : public GlooEngine {
 public:
  // Gloo writes to sockets whose other end may be gone, from threads of its own.
  explicit C10dEngine(int groups) : groups_(groups) { std::signal(SIGPIPE, SIG_IGN); }

  absl::Status Bind(const std::string& host) override {
    try {
      for (int group = 0; group < groups_; ++group) {
        devices_.push_back(std::make_shared<AbortableDevice>(host));
      }
    } catch (const std::exception& error) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot listen on ", host, ": ", Words(error.what())));
    }
    return absl::OkStatus();
  }

  absl::Status Connect(int rank, int world_size, KeyValueStore* store) override {
    auto options = c10d::ProcessGroupGloo::Options::create(kNoTimeout);
    options->devices.assign(devices_.begin(), devices_.end());
    options->threads = kThreads * groups_;
    auto c10d_store = c10::make_intrusive<C10dStore>(store, [devices = devices_] {
      for (const auto& device : devices) device->OnPairsMade();
    });
    c10d_store->setTimeout(kNoTimeout);
    try {
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(c10d_store), rank, world_size,
                                                           std::move(options));
    } catch (const std::exception& error) {
      return StatusOf(error);
    }
    return absl::OkStatus();
  }

  void Sum(absl::Span<float> values, Done done) override {
    Tensors tensors = {
        at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat)};
    Start([&] { return group_->allreduce(tensors); }, std::move(done));
  }

  void Broadcast(absl::Span<uint8_t> bytes, int root, Done done) override {
    Tensors tensors = {TensorOf(bytes)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    Start([&] { return group_->broadcast(tensors, options); }, std::move(done));
  }

  void Gather(absl::Span<uint8_t> mine, const std::vector<absl::Span<uint8_t>>& parts, int root,
              Done done) override {
    Tensors inputs = {TensorOf(mine)};
    std::vector<Tensors> outputs = TensorsOf(parts);
    c10d::GatherOptions options;
    options.rootRank = root;
    Start([&] { return group_->gather(outputs, inputs, options); }, std::move(done));
  }

  void Scatter(const std::vector<absl::Span<uint8_t>>& parts, absl::Span<uint8_t> mine, int root,
               Done done) override {
    Tensors outputs = {TensorOf(mine)};
    std::vector<Tensors> inputs = TensorsOf(parts);
    c10d::ScatterOptions options;
    options.rootRank = root;
    Start([&] { return group_->scatter(outputs, inputs, options); }, std::move(done));
  }

  std::vector<int> BrokenPeers() override {
    std::set<int> broken;
    for (const auto& device : devices_) {
      for (const int rank : device->BrokenPeers()) broken.insert(rank);
    }
    return {broken.begin(), broken.end()};
  }
  void Abort() override {
    for (const auto& device : devices_) device->Abort();
  }

 private:
  template <typename Operation>
  static void Start(Operation operation, Done done) {
    try {
      const Work work = operation();
      work->getFuture()->addCallback([done](c10::ivalue::Future& future) {
        done(future.hasError() ? absl::UnavailableError(Words(future.tryRetrieveErrorMessage()))
                               : absl::OkStatus());
      });
    } catch (const std::exception& error) {
      done(StatusOf(error));
    }
  }

  const int groups_;
  std::vector<std::shared_ptr<AbortableDevice>> devices_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace
}  // namespace gradwire

gradwire::GlooEngine* gradwire_make_gloo_engine(int groups) {
  return new gradwire::C10dEngine(groups);
}
