#include "tests/support/temp_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace gradwire::testing {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "gradwire-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    spdlog::critical("cannot make a folder like {}", pattern);
    std::abort();
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::File(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

void WriteFile(const std::string& path, absl::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) {
    spdlog::critical("cannot write {}", path);
    std::abort();
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();  // a process may end while its files in /proc are read; this does not throw
  return text.str();
}

}  // namespace gradwire::testing
