#include "coordinator/membership/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;

constexpr absl::Time kNow = absl::UnixEpoch();

// Two workers are to carry four ranks.
class CheckHelloTest : public ::testing::Test {
 protected:
  // The Hello of a worker that is let in.
  void LetIn(const v1::Hello& hello) { roster_.Add(WorkerOf(SessionId(1), hello, kNow)); }
  absl::Status Check(const v1::Hello& hello) {
    return CheckHello(hello, roster_, SettingsOf(TestHello(1)));
  }

  Roster roster_{{4, 2, 0}, LeaseLimits(), kNow};
};

TEST_F(CheckHelloTest, GoodHello_IsOk) {
  LetIn(TestHello(1, {0, 1}));
  EXPECT_TRUE(Check(TestHello(2, {2, 3})).ok());
}

TEST_F(CheckHelloTest, OtherProtocol_IsRefusedWithBothNumbersAndVersions) {
  v1::Hello hello = TestHello(1);
  hello.set_protocol(1);
  hello.set_version("0.0.9");
  EXPECT_EQ(Check(hello), absl::InvalidArgumentError("got protocol 1 (gradwire 0.0.9), expected 9 "
                                                     "(" GRADWIRE_VERSION ")"));
}

// Programs of protocol 1 did not say so.
TEST_F(CheckHelloTest, NoProtocol_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.clear_protocol();
  hello.clear_version();
  EXPECT_EQ(Check(hello),
            absl::InvalidArgumentError("got protocol 0, expected 9 (" GRADWIRE_VERSION ")"));
}

TEST_F(CheckHelloTest, EqualWorldSize_IsOk) {
  v1::Hello hello = TestHello(1);
  hello.set_world_size(4);
  EXPECT_TRUE(Check(hello).ok());
}

TEST_F(CheckHelloTest, OtherWorldSize_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.set_world_size(3);
  EXPECT_EQ(Check(hello),
            absl::InvalidArgumentError("world size: got 3, expected 4 (coordinator)"));
}

TEST_F(CheckHelloTest, RankOutOfRange_IsRefused) {
  EXPECT_EQ(Check(TestHello(1, {4})), absl::InvalidArgumentError("rank: got 4, expected 0 to 3"));
}

TEST_F(CheckHelloTest, RankTwice_IsRefused) {
  EXPECT_EQ(Check(TestHello(1, {2, 2})),
            absl::InvalidArgumentError("rank: got 2 twice, expected each once"));
}

TEST_F(CheckHelloTest, RankTaken_NamesWhoHasIt) {
  LetIn(TestHello(1, {0, 1}));
  EXPECT_EQ(Check(TestHello(2, {1, 2})),
            absl::AlreadyExistsError("rank 1 is taken by 10.10.1.2:1"));
}

TEST_F(CheckHelloTest, LastWorkerLeavesRanksToNobody_NamesThem) {
  LetIn(TestHello(1, {0}));
  const absl::Status status = Check(TestHello(2, {3}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ranks 1, 2 would be carried by no worker"));
}

TEST_F(CheckHelloTest, NothingLeftForTheOthers_IsRefused) {
  EXPECT_EQ(Check(TestHello(1, {0, 1, 2, 3})).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckHelloTest, AllWorkersAreThere_FailedPrecondition) {
  LetIn(TestHello(1));
  LetIn(TestHello(2));
  EXPECT_EQ(Check(TestHello(3)),
            absl::FailedPreconditionError("the run has all its 2 workers; its world size is 4"));
}

TEST_F(CheckHelloTest, NoAddress_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.clear_address();
  const absl::Status status = Check(hello);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("address: got '', expected HOST:PORT"));
}

TEST_F(CheckHelloTest, OtherSetting_NamesSettingAndWhoHasIt) {
  LetIn(TestHello(1, {2, 3}));
  v1::Hello hello = TestHello(2);
  (*hello.mutable_settings())["lr"] = "0.2";
  EXPECT_EQ(Check(hello),
            absl::InvalidArgumentError("setting 'lr': got 0.2, expected 0.1 (ranks 2, 3)"));
}

TEST_F(CheckHelloTest, MissingSetting_SaysNothingWasGot) {
  LetIn(TestHello(1));
  v1::Hello hello = TestHello(2);
  hello.mutable_settings()->erase("lr");
  EXPECT_EQ(Check(hello),
            absl::InvalidArgumentError("setting 'lr': got nothing, expected 0.1 (ranks 0, 1)"));
}

TEST_F(CheckHelloTest, SettingThatTheOthersHaveNot_IsRefused) {
  LetIn(TestHello(1));
  v1::Hello hello = TestHello(2);
  (*hello.mutable_settings())["wire"] = "bf16";
  EXPECT_EQ(Check(hello),
            absl::InvalidArgumentError("setting 'wire': got bf16, expected nothing (ranks 0, 1)"));
}

TEST_F(CheckHelloTest, OtherThreads_IsRefusedWithBothNumbers) {
  v1::Hello hello = TestHello(1);
  hello.set_threads(4);
  LetIn(hello);
  hello = TestHello(2);
  hello.set_threads(2);
  EXPECT_EQ(Check(hello), absl::InvalidArgumentError("threads: got 2, expected 4 (ranks 0, 1)"));
}

TEST_F(CheckHelloTest, NoThreadsWhereOthersSaySome_IsOk) {
  v1::Hello hello = TestHello(1);
  hello.set_threads(4);
  LetIn(hello);
  EXPECT_TRUE(Check(TestHello(2)).ok());
}

TEST(CheckHelloThreads, FirstWorkerSaysNone_TheSecondOnesCount) {
  Roster roster({3, 3, 0}, LeaseLimits(), kNow);
  roster.Add(WorkerOf(SessionId(1), TestHello(1), kNow));
  v1::Hello hello = TestHello(2);
  hello.set_threads(4);
  roster.Add(WorkerOf(SessionId(2), hello, kNow));
  hello = TestHello(3);
  hello.set_threads(2);
  EXPECT_EQ(CheckHello(hello, roster, SettingsOf(hello)),
            absl::InvalidArgumentError("threads: got 2, expected 4 (rank 1)"));
}

TEST_F(CheckHelloTest, BothOnLoopback_IsOk) {
  v1::Hello hello = TestHello(1);
  hello.set_address("127.0.0.1:1");
  LetIn(hello);
  hello = TestHello(2);
  hello.set_address("[::1]:1");
  EXPECT_TRUE(Check(hello).ok());
}

TEST_F(CheckHelloTest, NewcomerOnLoopback_SaysWhatToSetThere) {
  LetIn(TestHello(1, {0}));
  v1::Hello hello = TestHello(2);
  hello.set_address("127.0.0.1:5");
  EXPECT_EQ(
      Check(hello),
      absl::InvalidArgumentError(
          "address: got 127.0.0.1:5, but rank 0 has 10.10.1.2:1, and 127.0.0.1:5 cannot be "
          "reached from other hosts; start this worker with --coordinator set to the address that "
          "the coordinator's host has in the common network, or with --advertise HOST"));
}

TEST_F(CheckHelloTest, OthersOnLoopback_SaysWhatToSetThere) {
  v1::Hello hello = TestHello(1, {0});
  hello.set_address("127.0.0.1:5");
  LetIn(hello);
  EXPECT_EQ(Check(TestHello(2)),
            absl::InvalidArgumentError(
                "address: got 10.10.1.2:2, but rank 0 has 127.0.0.1:5, and 127.0.0.1:5 cannot be "
                "reached from other hosts; start rank 0 with --coordinator set to the address that "
                "the coordinator's host has in the common network, or with --advertise HOST"));
}

// A text that a worker may send about itself.
struct OwnText {
  std::string name;
  size_t most;
  std::function<void(v1::Hello*, const std::string&)> set;
};

TEST_F(CheckHelloTest, LongestTexts_AreTakenAndOneByteMoreIsRefused) {
  const std::vector<OwnText> texts = {
      {"version", 64, [](v1::Hello* h, const std::string& text) { h->set_version(text); }},
      {"id of shared memory", 256,
       [](v1::Hello* h, const std::string& text) { h->set_memory(text); }},
      {"reason for no recovery", 1024,
       [](v1::Hello* h, const std::string& text) { h->set_cannot_recover(text); }},
      {"host", 256, [](v1::Hello* h, const std::string& text) { h->set_host(text); }},
      {"name of a setting", 64,
       [](v1::Hello* h, const std::string& text) { (*h->mutable_settings())[text] = "1"; }},
      {"value of a setting", 1024,
       [](v1::Hello* h, const std::string& text) { (*h->mutable_settings())["lr"] = text; }},
      {"name in the environment", 64,
       [](v1::Hello* h, const std::string& text) { (*h->mutable_environment())[text] = "1"; }},
      {"value in the environment", 1024,
       [](v1::Hello* h, const std::string& text) { (*h->mutable_environment())["blas"] = text; }}};
  for (const OwnText& text : texts) {
    v1::Hello hello = TestHello(1);
    text.set(&hello, std::string(text.most, 'x'));
    EXPECT_TRUE(Check(hello).ok()) << text.name;
    hello = TestHello(1);
    text.set(&hello, std::string(text.most + 1, 'x'));
    EXPECT_EQ(Check(hello),
              absl::InvalidArgumentError(absl::StrCat(text.name, ": got ", text.most + 1,
                                                      " bytes, expected at most ", text.most)));
  }
}

TEST_F(CheckHelloTest, TooManySettingsOrValuesInTheEnvironment_AreRefused) {
  v1::Hello settings = TestHello(1), environment = TestHello(1);
  for (int i = settings.settings_size(); i < 256; ++i) {
    (*settings.mutable_settings())[absl::StrCat("setting ", i)] = "1";
  }
  for (int i = 0; i < 256; ++i) {
    (*environment.mutable_environment())[absl::StrCat("value ", i)] = "1";
  }
  EXPECT_TRUE(Check(settings).ok());
  EXPECT_TRUE(Check(environment).ok());
  (*settings.mutable_settings())["one more"] = "1";
  (*environment.mutable_environment())["one more"] = "1";
  EXPECT_EQ(Check(settings), absl::InvalidArgumentError("got 257 settings, expected at most 256"));
  EXPECT_EQ(Check(environment),
            absl::InvalidArgumentError("environment: got 257 values, expected at most 256"));
}

TEST_F(CheckHelloTest, MetricsWithoutAPort_AreRefused) {
  v1::Hello hello = TestHello(1);
  hello.set_metrics("10.10.1.2");
  EXPECT_THAT(std::string(Check(hello).message()),
              HasSubstr("got '10.10.1.2', expected HOST:PORT"));
}

}  // namespace
}  // namespace gradwire
