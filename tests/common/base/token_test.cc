#include "common/base/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReadTokenTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> ReadOf(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadToken(path_);
  }
  std::string ErrorOf(const std::string& text) {
    const absl::Status status = ReadOf(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.path() + "/token";
};

TEST_F(ReadTokenTest, EndOfLine_IsNotOfIt) {
  EXPECT_EQ(ReadOf("0123456789abcdef\r\n\n").value(), "0123456789abcdef");
}

TEST_F(ReadTokenTest, LeastAndMost_AreTaken) {
  EXPECT_EQ(ReadOf(std::string(16, 'a')).value().size(), 16);
  EXPECT_EQ(ReadOf(std::string(1024, 'a')).value().size(), 1024);
}

TEST_F(ReadTokenTest, TooShort_SaysHowLong) {
  EXPECT_THAT(ErrorOf("0123456789abcde"), HasSubstr("got 15 characters, expected 16 to 1024"));
  EXPECT_THAT(ErrorOf("\n"), HasSubstr("got 0 characters"));
}

TEST_F(ReadTokenTest, TooLong_Refused) {
  EXPECT_THAT(ErrorOf(std::string(1025, 'a')), HasSubstr("got 1025 characters"));
  EXPECT_THAT(ErrorOf(std::string(1 << 20, 'a')), HasSubstr("characters, expected 16 to 1024"));
}

TEST_F(ReadTokenTest, WhatNoHeaderCanCarry_RefusedAndNotShown) {
  for (const char* inside : {" ", "\n", "\t", "\x7f", "\xc3\xa4"}) {
    const std::string error = ErrorOf(std::string("secret-half") + inside + "another-half");
    EXPECT_THAT(error, HasSubstr("white space")) << inside;
    EXPECT_THAT(error, Not(HasSubstr("half")));
  }
}

TEST_F(ReadTokenTest, AllUsersCanReadIt_WarnsOnlyThen) {
  ReadOf("0123456789abcdef").value();
  using std::filesystem::perms;
  const perms of_owner = perms::owner_read | perms::owner_write;
  for (const perms others : {perms::none, perms::group_read, perms::others_read}) {
    std::filesystem::permissions(path_, of_owner | others);
    ::testing::internal::CaptureStdout();
    EXPECT_TRUE(ReadToken(path_).ok());
    const std::string log = ::testing::internal::GetCapturedStdout();
    const std::string warning = "all users of this host can read the token in '" + path_ + "'";
    EXPECT_EQ(log.find(warning) != std::string::npos, others == perms::others_read) << log;
  }
}

TEST_F(ReadTokenTest, NoFile_NotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadToken(path_).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadToken(dir_.path()).status()));
}

TEST(MakeToken, EachIsNewAndFits) {
  const std::string token = MakeToken();
  EXPECT_EQ(token.size(), 64);
  EXPECT_NE(token, MakeToken());
}

TEST(IsSameToken, TellsApart) {
  EXPECT_TRUE(IsSameToken("0123456789abcdef", "0123456789abcdef"));
  EXPECT_FALSE(IsSameToken("0123456789abcdeF", "0123456789abcdef"));
  EXPECT_FALSE(IsSameToken("X123456789abcdef", "0123456789abcdef"));
  EXPECT_FALSE(IsSameToken("0123456789abcde", "0123456789abcdef"));
  EXPECT_FALSE(IsSameToken("", "0123456789abcdef"));
}

}  // namespace
}  // namespace gradwire
