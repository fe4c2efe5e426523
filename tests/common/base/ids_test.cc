#include "common/base/ids.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <sstream>
#include <type_traits>
#include <unordered_set>

#include "absl/hash/hash.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

static_assert(!std::is_convertible_v<int, Rank>, "a number is no rank");
static_assert(!std::is_convertible_v<Rank, int>, "a rank is no number");
static_assert(!std::is_constructible_v<Rank, Bucket>, "a bucket is no rank");
static_assert(!std::is_constructible_v<Generation, Step>, "a step is no generation");

TEST(StrongInt, Default_IsZero) {
  EXPECT_EQ(Rank(), Rank(0));
  EXPECT_EQ(Step().value(), 0);
}

TEST(StrongInt, Comparisons_AreThoseOfTheNumbers) {
  const Step small(3), large(std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(small < large && small <= large && large > small && large >= small);
  EXPECT_TRUE(small != large && small == Step(3) && small <= Step(3) && small >= Step(3));
  EXPECT_FALSE(large < small || large == small || small > Step(3));
}

TEST(StrongInt, Increment_GivesTheNext) {
  Generation generation(7);
  EXPECT_EQ(++generation, Generation(8));
  EXPECT_EQ(generation, Generation(8));
}

TEST(StrongInt, Print_IsTheNumber) {
  std::ostringstream out;
  out << Rank(-1) << " " << Incarnation(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(out.str(), "-1 18446744073709551615");
}

TEST(StrongInt, Hash_EqualIds_AreOneKey) {
  std::unordered_set<Rank, absl::Hash<Rank>> ranks = {Rank(1), Rank(2), Rank(1)};
  EXPECT_EQ(ranks.size(), 2);
}

TEST(RunId, ToHex_EveryByte_HasTwoDigits) {
  RunId run_id{};
  run_id[0] = 0x0f;
  run_id[15] = 0xa0;
  EXPECT_EQ(ToHex(run_id), "0f0000000000000000000000000000a0");
}

TEST(RunId, MakeRunId_ManyTimes_NoneTwice) {
  std::set<RunId> ids;
  std::set<Incarnation> incarnations;
  for (int i = 0; i < 100; ++i) {
    ids.insert(MakeRunId());
    incarnations.insert(MakeIncarnation());
  }
  EXPECT_EQ(ids.size(), 100);
  EXPECT_EQ(incarnations.size(), 100);
}

// Both halves are drawn: with one of them left 0 they would soon collide in a large run.
TEST(Incarnation, MakeIncarnation_ManyTimes_EachBitIsSetInSome) {
  uint64_t seen = 0;
  for (int i = 0; i < 200; ++i) seen |= MakeIncarnation().value();
  EXPECT_EQ(seen, std::numeric_limits<uint64_t>::max());
}

TEST(StatusUtil, ToAndFromGrpc_EveryCode_IsTheSame) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "rank 2: why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
  }
}

TEST(StatusUtil, Annotate_Error_HasTheContextInFront) {
  EXPECT_EQ(Annotate(absl::AbortedError("why"), "rank 2"), absl::AbortedError("rank 2: why"));
  EXPECT_EQ(Annotate(absl::OkStatus(), "rank 2"), absl::OkStatus());
}

TEST(StatusUtil, ExitCode_EveryCode_AsTheDocumentSays) {
  const std::set<absl::StatusCode> usage = {
      absl::StatusCode::kInvalidArgument, absl::StatusCode::kAlreadyExists,
      absl::StatusCode::kNotFound,        absl::StatusCode::kOutOfRange,
      absl::StatusCode::kUnauthenticated, absl::StatusCode::kPermissionDenied};
  for (int number = 1; number <= 16; ++number) {
    const auto code = static_cast<absl::StatusCode>(number);
    const int expected = usage.count(code) > 0                    ? kExitUsage
                         : code == absl::StatusCode::kUnavailable ? kExitTryAgain
                                                                  : kExitFailed;
    EXPECT_EQ(ExitCode(absl::Status(code, "why")), expected) << number;
  }
  EXPECT_EQ(ExitCode(absl::OkStatus()), kExitDone);
}

}  // namespace
}  // namespace gradwire
