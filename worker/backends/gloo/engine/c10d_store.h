#ifndef GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_C10D_STORE_H_
#define GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_C10D_STORE_H_

#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "worker/backends/gloo/engine.h"

namespace gradwire {

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

#endif  // GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_C10D_STORE_H_
