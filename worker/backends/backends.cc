#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/backends/backend.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

// Serves for both rows, as the view is not known yet.
class AutoBackend : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const BackendOptions& options) {
    auto made = std::make_unique<AutoBackend>();
    for (const char* name : {kAutoOfWorkers, kAutoOfAggregators}) {
      auto backend = MakeBackend(name, options);
      if (!backend.ok()) return backend.status();
      made->rows_[name] = *std::move(backend);
    }
    return made;
  }

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override {
    return rows_.at(ChosenBackend(kAutoBackend, view))->Connect(view, ended, suspect);
  }

  std::vector<grpc::Service*> services() override {
    std::vector<grpc::Service*> services;
    for (const auto& [name, backend] : rows_) {
      for (grpc::Service* service : backend->services()) services.push_back(service);
    }
    return services;
  }

 private:
  std::map<std::string, std::unique_ptr<Backend>> rows_;
};

}  // namespace

// Each line's factory, in a file of its own, with its own errors.
#define GRADWIRE_BACKEND(name, factory, ...) \
  absl::StatusOr<std::unique_ptr<Backend>> factory(const BackendOptions& options);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name,
                                                     const BackendOptions& options) {
#define GRADWIRE_BACKEND(row_name, factory, ...) \
  if (name == row_name) return factory(options);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  if (name == kAutoBackend) return AutoBackend::Make(options);
  std::string names;
#define GRADWIRE_BACKEND(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  return absl::NotFoundError(absl::StrCat("back end '", name, "' does not exist; expected ",
                                          kAutoBackend, " or one of:", names));
}

std::string ChosenBackend(absl::string_view name, const View& view) {
  if (name != kAutoBackend) return std::string(name);
  return view.aggregators.empty() ? kAutoOfWorkers : kAutoOfAggregators;
}

}  // namespace gradwire
