#include "common/options/security_options.h"

#include "common/options/option_parser.h"

namespace gradwire {

void AddSecurityOptions(SecurityOptions* options, OptionParser* parser) {
  parser->Group("Security");
  parser->Add("token-file", "FILE", "a secret that all calls of the run carry, the same everywhere",
              Text(&options->token_file));
}

}  // namespace gradwire
