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
#include "worker/options/traits.h"

namespace gradwire {
namespace {

using MakeEngine = CollectiveEngine* (*)(int groups);

// A module with an engine.
struct EngineModule {
  const char* backend;  // its row
  const char* file;     // see PrivateFile
  const char* symbol;   // of a MakeEngine
  const char* advice;   // if it cannot be loaded
};

constexpr EngineModule kGloo = {"gloo", "libgradwire_gloo.so", "gradwire_make_gloo_engine",
                                "build it with -DGRADWIRE_BUILD_GLOO=ON"};
constexpr EngineModule kMpi = {
    "mpi", "libgradwire_mpi.so", "gradwire_make_mpi_engine",
    "install libopenmpi-dev (deploy/install-packages mpi) and build with -DGRADWIRE_BUILD_MPI=ON"};

absl::Status CannotLoad(const EngineModule& module) {
  return absl::FailedPreconditionError(
      absl::StrCat("back end ", module.backend, ": cannot load ", dlerror(), "; ", module.advice));
}

// Loads the module, which stays loaded, and makes an engine of `groups` with it. FailedPrecondition
// if it cannot be loaded; the message says why.
absl::StatusOr<std::unique_ptr<CollectiveEngine>> LoadEngine(const EngineModule& module,
                                                             int groups) {
  void* loaded = dlopen(PrivateFile(module.file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return CannotLoad(module);
  void* symbol = dlsym(loaded, module.symbol);
  if (symbol == nullptr) return CannotLoad(module);
  return std::unique_ptr<CollectiveEngine>(reinterpret_cast<MakeEngine>(symbol)(groups));
}

class EngineBackend : public Backend {
 public:
  // InvalidArgument: the wire is not float32. FailedPrecondition: the engine cannot be loaded.
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const EngineModule& module,
                                                       const BackendOptions& options) {
    // Engines sum fp16 in fp16, and do not know bf16; sums must be made in float32.
    if (options.wire != v1::DTYPE_FLOAT32) {
      return absl::InvalidArgumentError(absl::StrCat("back end ", module.backend, " cannot sum ",
                                                     WireName(options.wire),
                                                     " in float32; expected --wire fp32"));
    }
    if (absl::Status loads = LoadEngine(module, options.groups).status(); !loads.ok()) return loads;
    return std::make_unique<EngineBackend>(module, options);
  }

  EngineBackend(const EngineModule& module, const BackendOptions& options)
      : module_(module), options_(options) {}

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended&,
                                                    absl::optional<Incarnation>*) override {
    auto engine = LoadEngine(module_, options_.groups);
    if (!engine.ok()) return engine.status();
    auto exchange =
        std::make_unique<EngineExchange>(module_.backend, view, options_, *std::move(engine));
    if (absl::Status started = exchange->Start(); !started.ok()) return started;
    return exchange;
  }

 private:
  const EngineModule module_;
  const BackendOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeGlooBackend(const BackendOptions& options) {
  return EngineBackend::Make(kGloo, options);
}

// Also InvalidArgument as of CheckMpirun.
absl::StatusOr<std::unique_ptr<Backend>> MakeMpiBackend(const BackendOptions& options) {
  auto backend = EngineBackend::Make(kMpi, options);
  if (!backend.ok()) return backend;
  if (absl::Status status = CheckMpirun("mpi", CurrentEnvironment()); !status.ok()) return status;
  return backend;
}

}  // namespace gradwire
