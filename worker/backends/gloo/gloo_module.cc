#include "worker/backends/gloo/gloo_module.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/program_files.h"

namespace gradwire {
namespace {

absl::Status CannotLoad() {
  return absl::FailedPreconditionError(absl::StrCat("back end gloo: cannot load ", dlerror()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooEngine>> LoadGlooEngine(int groups) {
  const std::string path = PrivateFile("libgradwire_gloo.so");
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return CannotLoad();
  void* symbol = dlsym(module, "gradwire_make_gloo_engine");
  if (symbol == nullptr) return CannotLoad();
  const auto make = reinterpret_cast<decltype(&gradwire_make_gloo_engine)>(symbol);
  return std::unique_ptr<GlooEngine>(make(groups));
}

}  // namespace gradwire
