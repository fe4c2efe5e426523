#include "cli/report/gnuplot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A program in `dir` that does what the shell script says.
std::string Program(const testing::TempDir& dir, const std::string& script) {
  const std::string path = dir.File("gnuplot");
  testing::WriteFile(path, "#!/bin/sh\n" + script);
  chmod(path.c_str(), 0755);
  return path;
}

std::string RealGnuplot() {
  const auto found = FindGnuplot({{"PATH", std::getenv("PATH")}});
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or("");
}

TEST(FindGnuplot, InPath_IsFound) {
  const testing::TempDir dir;
  const std::string program = Program(dir, "");
  EXPECT_EQ(*FindGnuplot({{"PATH", "/no/folder:" + dir.path()}}), program);
}

TEST(FindGnuplot, NotInPath_NamesThePackage) {
  const testing::TempDir dir;
  const absl::Status status = FindGnuplot({{"PATH", dir.path()}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "gnuplot, which draws the figures, is not in PATH: install Debian's package "
            "gnuplot-nox");
}

TEST(FindGnuplot, FileThatIsNoProgram_IsPassedOver) {
  const testing::TempDir dir;
  testing::WriteFile(dir.File("gnuplot"), "");
  EXPECT_FALSE(FindGnuplot({{"PATH", dir.path()}}).ok());
}

TEST(DrawSvg, RealGnuplot_DrawsAnElement) {
  const auto svg = DrawSvg(RealGnuplot(), "key", "set terminal svg\nplot x\n");
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_THAT(*svg, AllOf(StartsWith("<svg"), EndsWith("</svg>"), Not(HasSubstr("<script"))));
}

TEST(DrawSvg, RealGnuplotsError_IsTold) {
  const absl::Status status = DrawSvg(RealGnuplot(), "key", "plot nonsense(\n").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), StartsWith("gnuplot ended with exit code 1:\n"));
}

TEST(DrawSvg, Ids_BeginWithTheKeyOfTheirFigure) {
  const testing::TempDir dir;
  testing::WriteFile(dir.File("figure"),
                     "<?xml version=\"1.0\"?>\n<svg><g id=\"a\"/><g id='b'/>"
                     "<use xlink:href='#a'/><path fill=\"url(#b)\"/></svg>\n");
  EXPECT_EQ(*DrawSvg(Program(dir, "cat " + dir.File("figure") + "\n"), "loss", ""),
            "<svg><g id=\"loss-a\"/><g id='loss-b'/><use xlink:href='#loss-a'/>"
            "<path fill=\"url(#loss-b)\"/></svg>");
}

TEST(DrawSvg, NoSvg_IsAnError) {
  const testing::TempDir dir;
  const absl::Status status = DrawSvg(Program(dir, "echo hello\n"), "key", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "gnuplot drew no figure");
}

TEST(DrawSvg, ProgramGone_IsAnError) { EXPECT_FALSE(DrawSvg("/no/gnuplot", "key", "").ok()); }

}  // namespace
}  // namespace gradwire
