#ifndef GRADWIRE_WORKER_BACKENDS_ENGINES_GLOO_C10D_ENGINE_H_
#define GRADWIRE_WORKER_BACKENDS_ENGINES_GLOO_C10D_ENGINE_H_

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "common/base/mutex.h"
#include "worker/backends/engines/engine.h"

namespace gradwire {

// A transport context of gloo with Abort. If a wait in a context times out, gloo closes all
// connections of the context and ends the operations that are in their queues; Abort makes such a
// wait and lets it time out. An operation that another thread puts into a queue meanwhile would
// wait for ever, so Abort ends each wait by itself, too.
//
// Thread-safe.
class AbortableContext : public gloo::transport::Context,
                         public std::enable_shared_from_this<AbortableContext> {
 public:
  explicit AbortableContext(std::shared_ptr<gloo::transport::Context> gloo);

  std::unique_ptr<gloo::transport::Pair>& getPair(int rank) override;
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override;
  // Throws gloo::IoException after Abort.
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* memory,
                                                                      size_t bytes) override;
  // All waits, now and later, throw gloo::IoException. Call it when the context has all its pairs.
  void Abort();

 private:
  class Buffer;
  void ThrowIfAborted();

  const std::shared_ptr<gloo::transport::Context> gloo_;
  Mutex mutex_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Buffer*> buffers_ ABSL_GUARDED_BY(mutex_);  // those that exist
};

// Gloo's TCP device with Abort, which ProcessGroupGloo lacks. It keeps its only transport context.
//
// Thread-safe.
class AbortableDevice : public gloo::transport::tcp::Device {
 public:
  // Throws gloo::Exception if `host` is not an address of this host.
  explicit AbortableDevice(const std::string& host);

  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

  // Call it when the context has all its pairs: an earlier Abort is carried out here, with
  // std::runtime_error.
  void OnPairsMade();

  // Returns the ranks whose connection is closed. Waits for data that never comes, so the context
  // is useless afterwards.
  std::vector<int> BrokenPeers();
  // Ends all operations, now and later, with gloo::IoException.
  void Abort();

 private:
  using Context = std::shared_ptr<AbortableContext>;
  // Returns the context, if it has all its pairs.
  Context Ready();

  Mutex mutex_;
  Context context_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

// Adapts a KeyValueStore to c10d. Errors become exceptions (std::runtime_error), as the base class
// requires; c10d passes them to its caller.
class C10dStore : public c10d::Store {
 public:
  // `store` must outlive this object. `on_set` runs before each set.
  C10dStore(KeyValueStore* store, std::function<void()> on_set);

  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  // Waits for the key, at most for the store's timeout.
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

#endif  // GRADWIRE_WORKER_BACKENDS_ENGINES_GLOO_C10D_ENGINE_H_
