#include "common/parameter_server/optimizer_module.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "common/base/environment.h"

namespace gradwire {
namespace {

using Make = decltype(&gradwire_make_piece_optimizer);

absl::Status CannotLoad() {
  return absl::FailedPreconditionError(
      absl::StrCat("the optimizer of a served model: cannot load ", dlerror()));
}

absl::StatusOr<Make> LoadModule() {
  const std::string path = PrivateFile("libgradwire_optimizer.so");
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return CannotLoad();
  void* symbol = dlsym(module, "gradwire_make_piece_optimizer");
  if (symbol == nullptr) return CannotLoad();
  return reinterpret_cast<Make>(symbol);
}

}  // namespace

absl::StatusOr<MakePieceOptimizer> LoadPieceOptimizers(const v1::Serving& serving) {
  const absl::StatusOr<Make> make = LoadModule();
  if (!make.ok()) return make.status();
  const auto make_one = [serving, make = *make](absl::Span<float> parameters, std::string* error) {
    const PieceOptimizerSpec spec{serving.optimizer().c_str(), serving.momentum(),
                                  serving.weight_decay(), serving.nesterov()};
    return std::unique_ptr<PieceOptimizer>(make(spec, parameters.data(), parameters.size(), error));
  };
  // torch accepts one parameter exactly if it accepts all.
  float parameter = 0;
  std::string error;
  if (make_one({&parameter, 1}, &error) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the optimizer of a served model: ", error));
  }
  return [make_one](absl::Span<float> parameters) {
    std::string unused;
    return make_one(parameters, &unused);
  };
}

}  // namespace gradwire
