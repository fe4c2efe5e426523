#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "cli/terminal/commands.h"
#include "common/base/environment.h"
#include "common/base/status_util.h"

namespace gradwire {

int ModelsCommand(const std::vector<std::string>& args, const Environment& /*environment*/) {
  std::string program = PrivateFile("gradwire-models");
  std::vector<std::string> words = args;
  std::vector<char*> argv = {program.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  std::cerr << "gradwire models: cannot start " << program << ": " << std::strerror(errno)
            << "; it is built and installed together with gradwire" << std::endl;
  return kExitFailed;
}

}  // namespace gradwire
