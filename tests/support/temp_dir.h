#ifndef GRADWIRE_TESTS_SUPPORT_TEMP_DIR_H_
#define GRADWIRE_TESTS_SUPPORT_TEMP_DIR_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gradwire::testing {

// A new, empty folder; the destructor removes it with all that is in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // Path of `name` in this folder; the file need not exist.
  std::string File(absl::string_view name) const;

 private:
  std::string path_;
};

// Writes `text` to the file, in place of what was there. Aborts if it cannot.
void WriteFile(const std::string& path, absl::string_view text);
// What the file holds; empty if it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_TEMP_DIR_H_
