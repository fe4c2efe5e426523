#ifndef GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_
#define GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_

#include <string>

namespace gradwire {

class OptionParser;

// How a program's calls are guarded; the same for all that take part in a run.
struct SecurityOptions {
  std::string token_file;  // empty: calls carry no token
  // In place of that file, for who makes the token. Not an option.
  std::string token;
};

void AddSecurityOptions(SecurityOptions* options, OptionParser* parser);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_
