// Options on which all ranks of a run must agree: the rows, --help and docs/options.md name the
// same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/worker/options/parse.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

using gradwire::testing::Parse;
using ::testing::ContainerEq;

using Names = std::set<std::string>;

Names AgreedNames() {
  Names names;
  for (const auto& [name, value] : AgreedValues(WorkerOptions())) names.insert(name);
  return names;
}

// The names behind "--" in `text`.
Names OptionsIn(const std::string& text) {
  static const std::regex option("--([a-z][a-z-]*)");
  Names names;
  for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

// The rows of the worker's table: the cells of each, options first, then default, all ranks, text.
std::vector<std::vector<std::string>> DocumentedRows() {
  std::ifstream page(GRADWIRE_SOURCE_DIR "/docs/options.md");
  std::vector<std::vector<std::string>> rows;
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    in_table = absl::StartsWith(line, "| worker |") || (in_table && absl::StartsWith(line, "|"));
    if (!in_table || !absl::StartsWith(line, "| `--")) continue;
    const std::string text = absl::StrReplaceAll(line, {{"\\|", "/"}});
    std::vector<std::string> cells = absl::StrSplit(text, '|');
    for (std::string& cell : cells) cell = std::string(absl::StripAsciiWhitespace(cell));
    rows.emplace_back(cells.begin() + 1, cells.end() - 1);
  }
  return rows;
}

TEST(Agreement, Rows_AreTheseOptions) {
  EXPECT_THAT(AgreedNames(), ContainerEq(Names{"accumulate",
                                               "augment",
                                               "backend",
                                               "base-batch",
                                               "batch-size",
                                               "broadcast-buffers",
                                               "bucket-cap-mb",
                                               "check-replicas",
                                               "clip-norm",
                                               "compress",
                                               "compress-warmup",
                                               "compute-seconds",
                                               "coordinator",
                                               "dataset",
                                               "delay",
                                               "drop-last",
                                               "epochs",
                                               "evaluate",
                                               "evaluate-every",
                                               "freeze-features",
                                               "groups",
                                               "hidden",
                                               "image-size",
                                               "iterations",
                                               "loss",
                                               "lr",
                                               "lr-gamma",
                                               "lr-schedule",
                                               "lr-step-epochs",
                                               "master-ip",
                                               "model",
                                               "momentum",
                                               "nesterov",
                                               "num-nodes",
                                               "on-nonfinite",
                                               "optimizer",
                                               "outer-lr",
                                               "outer-momentum",
                                               "sampler-seed",
                                               "scale-lr",
                                               "seed",
                                               "set-epoch",
                                               "staleness",
                                               "sync",
                                               "threads",
                                               "token-file",
                                               "warmup-epochs",
                                               "weight-decay",
                                               "weights",
                                               "wire",
                                               "world-size"}));
}

TEST(Agreement, DocumentedTable_MarksTheSameOptions) {
  Names marked;
  for (const std::vector<std::string>& cells : DocumentedRows()) {
    ASSERT_EQ(cells.size(), 4u) << cells[0];
    ASSERT_TRUE(cells[2] == "yes" || cells[2].empty()) << cells[0];
    const Names names = OptionsIn(cells[0]);
    if (cells[2] == "yes") marked.insert(names.begin(), names.end());
  }
  EXPECT_THAT(marked, ContainerEq(AgreedNames()));
}

// "  --name VALUE   help", of which the first line ends with the mark.
TEST(Agreement, Help_MarksTheSameOptions) {
  Names marked;
  Names of_option;
  for (const absl::string_view line : absl::StrSplit(Parse({"--help"})->print, '\n')) {
    if (absl::StartsWith(line, "  --")) of_option = OptionsIn(std::string(line.substr(0, 40)));
    if (absl::StrContains(line, "(all ranks)") && absl::StartsWith(line, "  ")) {
      marked.insert(of_option.begin(), of_option.end());
    }
  }
  EXPECT_THAT(marked, ContainerEq(AgreedNames()));
}

TEST(Agreement, Value_IsTextThatTheOptionTakes) {
  const std::vector<std::string> args = {"--sync",
                                         "diloco:8",
                                         "--delay",
                                         "2",
                                         "--lr",
                                         "0.25",
                                         "--compute-seconds",
                                         "0.5,1",
                                         "--image-size",
                                         "32",
                                         "--drop-last",
                                         "--seed",
                                         "18446744073709551615"};
  const auto parsed = Parse(args);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::string> again;
  for (const auto& [name, value] : AgreedValues(parsed->options)) {
    if (!value.is_default) again.push_back(absl::StrCat("--", name, "=", value.text));
  }
  const auto second = Parse(again);
  ASSERT_TRUE(second.ok()) << second.status();
  for (const auto& [name, value] : AgreedValues(second->options)) {
    EXPECT_EQ(value.text, AgreedValues(parsed->options).at(name).text) << name;
  }
}

// Else ranks could train with rates that differ.
TEST(Agreement, Value_OfARealNumber_HasAllItsDigits) {
  WorkerOptions options;
  options.lr = 0.1234567890123;
  options.compute_seconds = ComputeSeconds{0.12345678, 1.0 / 3};
  const auto parsed = Parse({"--lr", AgreedValues(options).at("lr").text, "--compute-seconds",
                             AgreedValues(options).at("compute-seconds").text});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.lr, options.lr);
  EXPECT_EQ(parsed->options.compute_seconds->forward, options.compute_seconds->forward);
  EXPECT_EQ(parsed->options.compute_seconds->backward, options.compute_seconds->backward);
}

TEST(Agreement, Default_IsShownAsInHelp) {
  EXPECT_EQ(AgreedValues(WorkerOptions()).at("threads").shown,
            "cores per rank, smallest of all workers");
  WorkerOptions options;
  options.threads = 2;
  EXPECT_EQ(AgreedValues(options).at("threads").shown, "2");
}

}  // namespace
}  // namespace gradwire
