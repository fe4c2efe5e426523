#include "cli/terminal/scratch_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
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
  std::ostringstream text;
  text << file.rdbuf();  // ends at an error of reading, where an iterator would throw
  return text.str();
}

std::string ProgramDir() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace gradwire
