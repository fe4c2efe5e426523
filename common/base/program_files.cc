#include "common/base/program_files.h"

#include <filesystem>
#include <system_error>

namespace gradwire {

std::string ProgramDir() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string PrivateFile(absl::string_view name) {
  const std::string file(name);
  std::error_code error;
  const std::filesystem::path dir = ProgramDir();
  if (std::filesystem::exists(dir / file, error)) return (dir / file).string();
  return (dir.parent_path() / "libexec" / "gradwire" / file).string();
}

}  // namespace gradwire
