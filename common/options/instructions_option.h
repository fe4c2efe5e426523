#ifndef GRADWIRE_COMMON_OPTIONS_INSTRUCTIONS_OPTION_H_
#define GRADWIRE_COMMON_OPTIONS_INSTRUCTIONS_OPTION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire {

class OptionParser;

// Adds --instructions.
void AddInstructionsOption(std::string* name, OptionParser* parser);

// Lets sums and checksums of this process use no newer instructions than those of the set `name`:
// "avx512", "avx2" or "baseline", or "" for the best that there are. InvalidArgument if the
// processor lacks them. Before anything is summed.
absl::Status UseInstructions(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_INSTRUCTIONS_OPTION_H_
