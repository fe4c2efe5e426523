#include "worker/backends/gloo/gloo_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

absl::StatusOr<std::string> ModulePath() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::FailedPreconditionError("back end gloo: cannot read /proc/self/exe");
  return (program.parent_path().parent_path() / "lib" / "libgradwire_gloo.so").string();
}

absl::Status CannotLoad() {
  return absl::FailedPreconditionError(absl::StrCat("back end gloo: cannot load ", dlerror()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooEngine>> LoadGlooEngine() {
  const absl::StatusOr<std::string> path = ModulePath();
  if (!path.ok()) return path.status();
  void* module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return CannotLoad();
  void* symbol = dlsym(module, "gradwire_make_gloo_engine");
  if (symbol == nullptr) return CannotLoad();
  const auto make = reinterpret_cast<decltype(&gradwire_make_gloo_engine)>(symbol);
  return std::unique_ptr<GlooEngine>(make());
}

}  // namespace gradwire
