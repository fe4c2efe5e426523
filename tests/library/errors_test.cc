#include "library/errors.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

TEST(ToError, EachStatus_HasTheCodeByWhichProgramsDecide) {
  const std::vector<std::pair<absl::StatusCode, ErrorCode>> codes = {
      {absl::StatusCode::kInvalidArgument, ErrorCode::kInvalidArgument},
      {absl::StatusCode::kNotFound, ErrorCode::kInvalidArgument},
      {absl::StatusCode::kOutOfRange, ErrorCode::kInvalidArgument},
      {absl::StatusCode::kUnauthenticated, ErrorCode::kInvalidArgument},
      {absl::StatusCode::kAlreadyExists, ErrorCode::kFailedPrecondition},
      {absl::StatusCode::kFailedPrecondition, ErrorCode::kFailedPrecondition},
      {absl::StatusCode::kUnavailable, ErrorCode::kUnavailable},
      {absl::StatusCode::kDeadlineExceeded, ErrorCode::kDeadlineExceeded},
      {absl::StatusCode::kAborted, ErrorCode::kAborted},
      {absl::StatusCode::kCancelled, ErrorCode::kAborted},
      {absl::StatusCode::kDataLoss, ErrorCode::kDataLoss},
      {absl::StatusCode::kInternal, ErrorCode::kInternal},
      {absl::StatusCode::kUnknown, ErrorCode::kInternal}};
  for (const auto& [status, code] : codes) {
    const Error error = ToError(absl::Status(status, "why"), 3, 7);
    EXPECT_EQ(error.code(), code) << absl::StatusCodeToString(status);
    EXPECT_EQ(error.rank(), 3);
    EXPECT_EQ(error.step(), 7);
    EXPECT_STREQ(error.what(), "why");
  }
}

TEST(ToString, EachErrorCode_HasItsWords) {
  const std::vector<std::pair<ErrorCode, std::string>> words = {
      {ErrorCode::kInvalidArgument, "invalid argument"},
      {ErrorCode::kFailedPrecondition, "failed precondition"},
      {ErrorCode::kUnavailable, "unavailable"},
      {ErrorCode::kDeadlineExceeded, "deadline exceeded"},
      {ErrorCode::kAborted, "aborted"},
      {ErrorCode::kDataLoss, "data loss"},
      {ErrorCode::kInternal, "internal"}};
  for (const auto& [code, word] : words) EXPECT_EQ(ToString(code), word);
}

}  // namespace
}  // namespace gradwire
