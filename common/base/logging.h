#ifndef GRADWIRE_COMMON_BASE_LOGGING_H_
#define GRADWIRE_COMMON_BASE_LOGGING_H_

namespace gradwire {

// Sends spdlog's default logger to stderr, in colour on a terminal unless
// NO_COLOR is set, so that stdout carries nothing but data. gRPC's own messages
// are shown only at level debug, as ours say the same in plain words; setting
// GRPC_VERBOSITY brings them back. Call once, at the start of a program.
void LogToStderr();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_LOGGING_H_
