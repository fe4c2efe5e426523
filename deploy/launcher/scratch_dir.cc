#include "deploy/launcher/scratch_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace gradwire {

namespace fs = std::filesystem;

ScratchDir::ScratchDir() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "gradwire-launch-XXXXXX").string();
  if (!error && mkdtemp(path.data()) != nullptr) path_ = path;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string ProgramDir() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace gradwire
