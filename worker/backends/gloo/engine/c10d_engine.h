#ifndef GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_C10D_ENGINE_H_
#define GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_C10D_ENGINE_H_

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "common/base/mutex.h"
#include "worker/backends/gloo/engine.h"

namespace gradwire {

// Gloo's TCP device, with what ProcessGroupGloo lacks: an end to operations
// under way. It keeps the (one) transport context that is made with it; when a
// wait in a context times out, gloo closes all of its connections and ends all
// operations on them, so Abort makes such a wait and lets it time out.
//
// Thread-safe.
class AbortableDevice : public gloo::transport::tcp::Device {
 public:
  // Throws gloo::Exception if `host` is not an address of this host.
  explicit AbortableDevice(const std::string& host);

  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

  // To be called when the context has all its pairs: before that, Abort waits
  // to be carried out here. Throws std::runtime_error if there was one.
  void OnPairsMade();

  // The ranks whose connection is closed. Asks for data that never comes, so
  // the context is of no use afterwards.
  std::vector<int> BrokenPeers();
  // Ends all operations, now and later, with gloo::IoException.
  void Abort();

 private:
  using Context = std::shared_ptr<gloo::transport::Context>;
  // The context, if it has all its pairs.
  Context Ready();

  Mutex mutex_;
  Context context_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

// Shows a KeyValueStore to c10d. Errors become exceptions (std::runtime_error),
// which is what the base class has for them; c10d hands them back to who called it.
class C10dStore : public c10d::Store {
 public:
  // `store` outlives this. `on_set` runs before each set.
  C10dStore(KeyValueStore* store, std::function<void()> on_set);

  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  // Waits for the key, at most the store's timeout.
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  KeyValueStore* const store_;
  const std::function<void()> on_set_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_C10D_ENGINE_H_
