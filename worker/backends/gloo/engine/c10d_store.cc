#include "worker/backends/gloo/engine/c10d_store.h"

#include <stdexcept>
#include <utility>

#include "common/base/clock.h"

namespace gradwire {
namespace {

void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> result) {
  ThrowIfError(result.status());
  return *std::move(result);
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

int64_t C10dStore::add(const std::string& key, int64_t value) {
  return ValueOrThrow(store_->Add(key, value));
}

bool C10dStore::deleteKey(const std::string& key) { return ValueOrThrow(store_->Delete(key)); }

bool C10dStore::check(const std::vector<std::string>& keys) {
  return ValueOrThrow(store_->Check(keys));
}

int64_t C10dStore::getNumKeys() { return ValueOrThrow(store_->Count()); }

void C10dStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void C10dStore::wait(const std::vector<std::string>& keys,
                     const std::chrono::milliseconds& timeout) {
  ValueOrThrow(store_->Wait(keys, In(timeout)));
}

}  // namespace gradwire
