#include <gradwire/version.h>

namespace gradwire {

const char* version() { return GRADWIRE_VERSION; }

}  // namespace gradwire
