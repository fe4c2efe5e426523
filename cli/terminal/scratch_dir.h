#ifndef GRADWIRE_CLI_TERMINAL_SCRATCH_DIR_H_
#define GRADWIRE_CLI_TERMINAL_SCRATCH_DIR_H_

#include <string>

namespace gradwire {

// A folder that only this user can read; removed with all that is in it.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::string& path() const { return path_; }  // empty if there is none

 private:
  std::string path_;
};

// What the file holds; empty if it cannot be read.
std::string ReadFile(const std::string& path);

// The folder of this program.
std::string ProgramDir();

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_SCRATCH_DIR_H_
