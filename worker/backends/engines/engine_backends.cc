#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/environment.h"
#include "worker/backends/backend.h"
#include "worker/backends/engines/engine.h"
#include "worker/backends/engines/engine_exchange.h"

namespace gradwire {
namespace {

absl::Status CannotLoad() {
  return absl::FailedPreconditionError(absl::StrCat("back end gloo: cannot load ", dlerror()));
}

// Loads libgradwire_gloo.so (see PrivateFile), which stays loaded, and makes an engine of `groups`
// with it. FailedPrecondition if it cannot be loaded; the message says why.
absl::StatusOr<std::unique_ptr<CollectiveEngine>> LoadGlooEngine(int groups) {
  const std::string path = PrivateFile("libgradwire_gloo.so");
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return CannotLoad();
  void* symbol = dlsym(module, "gradwire_make_gloo_engine");
  if (symbol == nullptr) return CannotLoad();
  const auto make = reinterpret_cast<decltype(&gradwire_make_gloo_engine)>(symbol);
  return std::unique_ptr<CollectiveEngine>(make(groups));
}

class GlooBackend : public Backend {
 public:
  explicit GlooBackend(const BackendOptions& options) : options_(options) {}

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended&,
                                                    absl::optional<Incarnation>*) override {
    absl::StatusOr<std::unique_ptr<CollectiveEngine>> engine = LoadGlooEngine(options_.groups);
    if (!engine.ok()) return engine.status();
    auto exchange = std::make_unique<EngineExchange>(view, options_, *std::move(engine));
    if (absl::Status started = exchange->Start(); !started.ok()) return started;
    return exchange;
  }

 private:
  const BackendOptions options_;
};

}  // namespace

// InvalidArgument: the wire is not float32. FailedPrecondition: the engine cannot be loaded.
absl::StatusOr<std::unique_ptr<Backend>> MakeGlooBackend(const BackendOptions& options) {
  // gloo sums fp16 in fp16, and does not know bf16; sums must be made in float32.
  if (options.wire != v1::DTYPE_FLOAT32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "back end gloo cannot sum ", WireName(options.wire), " in float32; expected --wire fp32"));
  }
  if (absl::Status loads = LoadGlooEngine(options.groups).status(); !loads.ok()) return loads;
  return std::make_unique<GlooBackend>(options);
}

}  // namespace gradwire
