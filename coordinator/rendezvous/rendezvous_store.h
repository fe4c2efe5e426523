#ifndef GRADWIRE_COORDINATOR_RENDEZVOUS_RENDEZVOUS_STORE_H_
#define GRADWIRE_COORDINATOR_RENDEZVOUS_RENDEZVOUS_STORE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace gradwire {

// The keys and values behind v1.Rendezvous (see rendezvous.proto for the contract of each call).
// Thread-safe; memory is bounded.
//
// Errors of every method:
//   InvalidArgument  a key is empty or too long, or too many keys were given
//   Aborted          the reason of Abort
class RendezvousStore {
 public:
  static constexpr size_t kMaxKeyBytes = 256;
  static constexpr size_t kMaxKeys = 1024;  // per request
  static constexpr size_t kMaxValueBytes = 1 << 20;
  static constexpr size_t kMaxBytes = 64 << 20;  // all keys and values

  using Keys = std::vector<std::string>;
  using Entries = std::vector<std::pair<std::string, std::string>>;  // key, value

  // ResourceExhausted: the value is too long, or all values would be too large.
  absl::Status Set(const std::string& key, std::string value);
  // Returns the existing keys, in the order of `keys`.
  absl::StatusOr<Entries> Get(const Keys& keys) const;
  // Blocks until all keys exist. DeadlineExceeded names the missing ones.
  absl::StatusOr<Entries> Wait(const Keys& keys, absl::Time deadline);

  // Ends all waits and all further calls with `reason`, which must not be OK. The first call
  // counts.
  void Abort(absl::Status reason);

 private:
  absl::Status Check(const Keys& keys) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entries Find(const Keys& keys) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Keys Missing(const Keys& keys) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all keys and values
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RENDEZVOUS_RENDEZVOUS_STORE_H_
