#include "library/errors.h"

#include <string>

namespace gradwire {
namespace {

ErrorCode CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnauthenticated:
      return ErrorCode::kInvalidArgument;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return ErrorCode::kFailedPrecondition;
    case absl::StatusCode::kUnavailable:
      return ErrorCode::kUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return ErrorCode::kDeadlineExceeded;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return ErrorCode::kAborted;
    case absl::StatusCode::kDataLoss:
      return ErrorCode::kDataLoss;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

const char* ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kFailedPrecondition:
      return "failed precondition";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "deadline exceeded";
    case ErrorCode::kAborted:
      return "aborted";
    case ErrorCode::kDataLoss:
      return "data loss";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, int rank, int64_t step, const std::string& message)
    : std::runtime_error(message), code_(code), rank_(rank), step_(step) {}

Error::~Error() = default;

Error ToError(const absl::Status& status, int rank, int64_t step) {
  return Error(CodeOf(status.code()), rank, step, std::string(status.message()));
}

}  // namespace gradwire
