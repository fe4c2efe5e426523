#include "worker/backends/gloo/engine/abortable_device.h"

#include <gloo/common/error.h>

#include <chrono>
#include <stdexcept>

namespace gradwire {
namespace {

// Gloo's collectives use the upper byte for their kind, from 1.
constexpr uint64_t kUnusedSlot = 0;

}  // namespace

AbortableDevice::AbortableDevice(const std::string& host)
    : gloo::transport::tcp::Device(gloo::transport::tcp::CreateDeviceAttr(host.c_str())) {}

std::shared_ptr<gloo::transport::Context> AbortableDevice::createContext(int rank, int size) {
  Context context = gloo::transport::tcp::Device::createContext(rank, size);
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
  const Context context = Ready();
  if (context == nullptr) return;
  char memory = 0;
  const auto buffer = context->createUnboundBuffer(&memory, sizeof(memory));
  try {
    buffer->waitRecv(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
    // It timed out, as meant.
  }
}

}  // namespace gradwire
