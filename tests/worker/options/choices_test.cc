#include "worker/options/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "worker/options/model_flags.h"

namespace gradwire {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

const std::vector<std::function<std::vector<NamedChoice>()>>& Tables() {
  static const auto* const tables = new std::vector<std::function<std::vector<NamedChoice>()>>{
      ModelChoices,     DatasetChoices,  SyncChoices, BackendChoicesWithAuto,
      OptimizerChoices, ScheduleChoices, LossChoices};
  return *tables;
}

TEST(Choices, EveryTable_NamesAreWordsAndNoneIsTwice) {
  const std::regex word("[a-z0-9]+([-_][a-z0-9]+)*");
  for (const auto& table : Tables()) {
    const std::vector<std::string> names = NamesOf(table());
    EXPECT_FALSE(names.empty());
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
    for (const std::string& name : names) EXPECT_TRUE(std::regex_match(name, word)) << name;
  }
}

TEST(Choices, EveryTable_EachRowHasALineOfHelp) {
  for (const auto& table : Tables()) {
    for (const NamedChoice& choice : table()) {
      EXPECT_FALSE(choice.help.empty()) << choice.name;
      EXPECT_THAT(choice.help, Not(HasSubstr("\n"))) << choice.name;
    }
  }
}

TEST(Choices, Auto_IsNoRowButMayBeChosen) {
  EXPECT_THAT(NamesOf(BackendChoices()), Not(Contains(kAutoBackend)));
  EXPECT_THAT(NamesOf(BackendChoicesWithAuto()), Contains(kAutoBackend));
  EXPECT_THAT(NamesOf(BackendChoices()),
              IsSupersetOf({kAutoOfHost, kAutoOfWorkers, kAutoOfAggregators, kAutoOfGathering}));
}

TEST(Choices, BackendFor_AutoWithSeveralConnections_IsReplaced) {
  EXPECT_EQ(BackendFor(kAutoBackend, 2, false), kAutoOfAggregators);
  EXPECT_EQ(BackendFor(kAutoBackend, 2, true), kAutoOfGathering);
  EXPECT_EQ(BackendFor(kAutoBackend, 1, false), kAutoBackend);  // the view will say
  EXPECT_EQ(BackendFor("ring", 2, false), "ring");
}

TEST(Choices, DescribeChoices_Rows_AreALineEach) {
  EXPECT_EQ(DescribeChoices("the fruit:", {{"a", "apple"}, {"b", "pear"}}),
            "the fruit:\n  a: apple\n  b: pear");
  EXPECT_EQ(DescribeChoices("none", {}), "none");
}

TEST(ModelFlags, ToArguments_Defaults_AreTheModelAlone) {
  EXPECT_THAT(ToArguments(ModelFlags{}), ElementsAre("--model", "vgg11"));
}

TEST(ModelFlags, ToArguments_AllSet_AreAllThere) {
  EXPECT_THAT(ToArguments({"resnet18", 224, 64, true}),
              ElementsAre("--model", "resnet18", "--image-size", "224", "--hidden", "64",
                          "--freeze-features"));
}

TEST(CompressionOf, Momentum_GoesToCodecsThatSendAShare) {
  WorkerOptions options;
  options.compress_warmup = 5;
  options.compress = "top-k:0.01";
  EXPECT_FLOAT_EQ(CompressionOf(options)->momentum, 0.9F);
  EXPECT_EQ(CompressionOf(options)->warmup_steps, 5);
  options.optimizer = "adam";
  EXPECT_EQ(CompressionOf(options)->momentum, 0);
  options.optimizer = "sgd";
  options.compress = "int8";
  EXPECT_EQ(CompressionOf(options)->momentum, 0);
}

TEST(CompressionOf, UnknownCodec_IsItsError) {
  WorkerOptions options;
  options.compress = "zip";
  EXPECT_EQ(CompressionOf(options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WireTypeOf(options).status(), CompressionOf(options).status());
}

TEST(WireTypeOf, Codec_GoesBeforeTheWire) {
  WorkerOptions options;
  options.wire = "bf16";
  EXPECT_EQ(WireTypeOf(options).value(), v1::DTYPE_BFLOAT16);
  options.compress = "int8";
  EXPECT_EQ(WireTypeOf(options).value(), v1::DTYPE_INT8);
  options.compress = "powersgd:2";
  EXPECT_EQ(WireTypeOf(options).value(), v1::DTYPE_FLOAT32);
  options.compress = "none";
  options.wire = "int3";
  EXPECT_EQ(WireTypeOf(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gradwire
