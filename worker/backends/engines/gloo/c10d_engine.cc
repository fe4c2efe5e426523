// The only source file of the back ends that includes c10d.
#include "worker/backends/engines/gloo/c10d_engine.h"

#include <ATen/ops/from_blob.h>
#include <gloo/common/error.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <regex>
#include <set>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/backends/engines/engine.h"

namespace gradwire {

namespace {

// Gloo's collectives use the upper byte for their kind, from 1.
constexpr uint64_t kUnusedSlot = 0;

}  // namespace

// A buffer of gloo's. Its context knows it while it exists.
class AbortableContext::Buffer : public gloo::transport::UnboundBuffer {
 public:
  using Timeout = std::chrono::milliseconds;

  Buffer(std::shared_ptr<AbortableContext> context, void* memory, size_t bytes)
      : UnboundBuffer(memory, bytes),
        context_(std::move(context)),
        gloo_(context_->gloo_->createUnboundBuffer(memory, bytes)) {
    MutexLock lock(&context_->mutex_);
    context_->buffers_.insert(this);
  }
  ~Buffer() override {
    MutexLock lock(&context_->mutex_);
    context_->buffers_.erase(this);
  }

  bool waitRecv(int* rank, Timeout timeout) override {
    context_->ThrowIfAborted();
    return Ended(gloo_->waitRecv(rank, timeout));
  }
  bool waitSend(int* rank, Timeout timeout) override {
    context_->ThrowIfAborted();
    return Ended(gloo_->waitSend(rank, timeout));
  }
  void abortWaitRecv() override { gloo_->abortWaitRecv(); }
  void abortWaitSend() override { gloo_->abortWaitSend(); }

  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    gloo_->send(rank, slot, offset, bytes);
  }
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    gloo_->recv(rank, slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) override {
    gloo_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  // Gloo's algorithms do not look at the result of a wait.
  bool Ended(bool completed) {
    if (!completed) context_->ThrowIfAborted();
    return completed;
  }

  const std::shared_ptr<AbortableContext> context_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> gloo_;
};

AbortableContext::AbortableContext(std::shared_ptr<gloo::transport::Context> gloo)
    : gloo::transport::Context(gloo->rank, gloo->size), gloo_(std::move(gloo)) {}

std::unique_ptr<gloo::transport::Pair>& AbortableContext::getPair(int rank) {
  return gloo_->getPair(rank);
}

std::unique_ptr<gloo::transport::Pair>& AbortableContext::createPair(int rank) {
  gloo_->setTimeout(getTimeout());
  return gloo_->createPair(rank);
}

std::unique_ptr<gloo::transport::UnboundBuffer> AbortableContext::createUnboundBuffer(
    void* memory, size_t bytes) {
  ThrowIfAborted();
  return std::make_unique<Buffer>(shared_from_this(), memory, bytes);
}

void AbortableContext::ThrowIfAborted() {
  MutexLock lock(&mutex_);
  if (aborted_) throw gloo::IoException("aborted");
}

void AbortableContext::Abort() {
  {
    MutexLock lock(&mutex_);
    aborted_ = true;
  }
  char memory = 0;
  try {
    gloo_->createUnboundBuffer(&memory, sizeof(memory))->waitRecv(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
    // It timed out, as intended.
  }
  MutexLock lock(&mutex_);
  for (Buffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

AbortableDevice::AbortableDevice(const std::string& host)
    : gloo::transport::tcp::Device(gloo::transport::tcp::CreateDeviceAttr(host.c_str())) {}

std::shared_ptr<gloo::transport::Context> AbortableDevice::createContext(int rank, int size) {
  auto context =
      std::make_shared<AbortableContext>(gloo::transport::tcp::Device::createContext(rank, size));
  MutexLock lock(&mutex_);
  context_ = context;
  return context;
}

void AbortableDevice::OnPairsMade() {
  MutexLock lock(&mutex_);
  ready_ = context_ != nullptr;
  if (aborted_) throw std::runtime_error("aborted");
}

AbortableDevice::Context AbortableDevice::Ready() {
  MutexLock lock(&mutex_);
  return ready_ ? context_ : nullptr;
}

std::vector<int> AbortableDevice::BrokenPeers() {
  std::vector<int> broken;
  const Context context = Ready();
  if (context == nullptr) return broken;
  char memory = 0;
  const auto buffer = context->createUnboundBuffer(&memory, sizeof(memory));
  for (int rank = 0; rank < context->size; ++rank) {
    if (rank == context->rank) continue;
    try {
      buffer->recv(rank, kUnusedSlot);
    } catch (const std::exception&) {
      broken.push_back(rank);
    }
  }
  return broken;
}

void AbortableDevice::Abort() {
  {
    MutexLock lock(&mutex_);
    aborted_ = true;
  }
  if (const Context context = Ready(); context != nullptr) context->Abort();
}

namespace {

void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> result) {
  ThrowIfError(result.status());
  return *std::move(result);
}

// Gloo calls only set, get and wait of its store.
[[noreturn]] void ThrowUncalled() {
  throw std::logic_error("got a call of the rendezvous that gloo is not known to make");
}

absl::Time In(std::chrono::milliseconds timeout) { return SteadyNow() + absl::FromChrono(timeout); }

}  // namespace

C10dStore::C10dStore(KeyValueStore* store, std::function<void()> on_set)
    : store_(store), on_set_(std::move(on_set)) {}

void C10dStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  on_set_();
  ThrowIfError(store_->Set(key, std::string(value.begin(), value.end())));
}

std::vector<uint8_t> C10dStore::get(const std::string& key) {
  const std::string value = ValueOrThrow(store_->Wait({key}, In(timeout_))).at(0);
  return {value.begin(), value.end()};
}

int64_t C10dStore::add(const std::string& /*key*/, int64_t /*value*/) { ThrowUncalled(); }

bool C10dStore::deleteKey(const std::string& /*key*/) { ThrowUncalled(); }

bool C10dStore::check(const std::vector<std::string>& /*keys*/) { ThrowUncalled(); }

int64_t C10dStore::getNumKeys() { ThrowUncalled(); }

void C10dStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void C10dStore::wait(const std::vector<std::string>& keys,
                     const std::chrono::milliseconds& timeout) {
  ValueOrThrow(store_->Wait(keys, In(timeout)));
}

namespace {

using Tensors = std::vector<at::Tensor>;
using Work = c10::intrusive_ptr<c10d::Work>;

// The back end has deadlines; gloo's timeouts would be a second set.
constexpr std::chrono::hours kNoTimeout(24);
// Concurrent operations of each group, as in torch.distributed.
constexpr int kThreads = 2;

// Removes the source line before the message and the trace after it: "Connection closed by peer …".
std::string Words(const std::string& what) {
  const std::string first_line = what.substr(0, what.find('\n'));
  return std::regex_replace(first_line, std::regex(R"(^\[[^\]]*\.cc:\d+\] )"), "");
}

at::Tensor TensorOf(absl::Span<uint8_t> bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

// Returns one list, or none on ranks that have no parts.
std::vector<Tensors> TensorsOf(const std::vector<absl::Span<uint8_t>>& parts) {
  if (parts.empty()) return {};
  Tensors tensors;
  for (const absl::Span<uint8_t> part : parts) tensors.push_back(TensorOf(part));
  return {tensors};
}

absl::Status StatusOf(const std::exception& error) {
  return absl::UnavailableError(Words(error.what()));
}

// A group is a device of ProcessGroupGloo, which makes connections for each device; operations take
// turns on them.
class C10dEngine : public CollectiveEngine {
 public:
  // Gloo writes to sockets whose other end may be closed, from its own threads.
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

  // Gloo sums in place.
  void Sum(absl::Span<const float> terms, absl::Span<float> sum, Done done) override {
    if (terms.data() != sum.data()) std::copy(terms.begin(), terms.end(), sum.begin());
    Tensors tensors = {at::from_blob(sum.data(), {static_cast<int64_t>(sum.size())}, at::kFloat)};
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

  // Gloo sends only data that its receiver has asked for.
  absl::Status Finish(absl::Time) override { return absl::OkStatus(); }

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

gradwire::CollectiveEngine* gradwire_make_gloo_engine(int groups) {
  return new gradwire::C10dEngine(groups);
}
