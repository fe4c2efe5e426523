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

// InvalidArgument if nothing has started this process as a rank of MPI: MPI would then make a world
// of one rank.
absl::Status CheckMpirun(const Environment& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}) {
    if (!Value(environment, variable).empty()) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "back end mpi: got neither OMPI_COMM_WORLD_SIZE nor PMIX_RANK in the environment, expected "
      "workers that mpirun has started: 'gradwire launch' on one machine, or 'mpirun -np W "
      "gradwire-worker --host-coordinator --backend mpi' (docs/deploy/mpi.md)");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeGlooBackend(const BackendOptions& options) {
  return EngineBackend::Make(kGloo, options);
}

// Also InvalidArgument: not under mpirun.
absl::StatusOr<std::unique_ptr<Backend>> MakeMpiBackend(const BackendOptions& options) {
  auto backend = EngineBackend::Make(kMpi, options);
  if (!backend.ok()) return backend;
  if (absl::Status started = CheckMpirun(CurrentEnvironment()); !started.ok()) return started;
  return backend;
}

}  // namespace gradwire
