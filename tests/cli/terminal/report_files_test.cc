#include <gtest/gtest.h>

#include "cli/terminal/script.h"

namespace gradwire {
namespace {

TEST(CheckWritable, NoSuchFolder_NamesTheOption) {
  ReportFiles files;
  files.csv = "/no/such/folder/x.csv";
  const absl::Status status = CheckWritable(files);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, 6), "--csv:");
}

}  // namespace
}  // namespace gradwire
