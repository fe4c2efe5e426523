#include "common/options/option_parser.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <iostream>

#include "common/base/status_util.h"
#include "common/fold/kernels.h"
#include "common/wire/protocol.h"
#include "common/wire/xxh3.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class OptionParserTest : public ::testing::Test {
 protected:
  OptionParserTest() {
    parser_.Group("Test");
    parser_.Add("batch-size", "N", "samples", Integer(&batch_size_, 1));
    parser_.Add("model", "NAME", "the network", Choice(&model_, {"vgg11", "linear"}));
    parser_.Add("evaluate", "true|false", "at the end", Switch(&evaluate_));
  }

  std::string ErrorOf(const std::vector<std::string>& args, const Environment& environment = {}) {
    return std::string(parser_.Parse(args, environment).message());
  }
  std::string ErrorOfFile(const std::string& text) {
    testing::WriteFile(File(), text);
    const std::string message = ErrorOf({"--config", File()});
    EXPECT_THAT(message, HasSubstr(File()));
    return message;
  }
  std::string File() const { return dir_.File("run.ini"); }

  testing::TempDir dir_;
  int batch_size_ = 64;
  std::string model_ = "vgg11";
  bool evaluate_ = false;
  OptionParser parser_{"gradwire-test", "Tests.", {"test"}};
};

TEST_F(OptionParserTest, Parse_Nothing_KeepsDefaults) {
  ASSERT_TRUE(parser_.Parse({}, {}).ok());
  EXPECT_EQ(batch_size_, 64);
  EXPECT_EQ(parser_.source("batch-size").name, "default");
}

TEST_F(OptionParserTest, Parse_Operands_AreTakenInOrder) {
  parser_.TakeOperands("FILE", "to read");
  ASSERT_TRUE(parser_.Parse({"b", "--batch-size", "4", "a"}, {}).ok());
  EXPECT_EQ(parser_.operands(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(batch_size_, 4);
}

TEST_F(OptionParserTest, Parse_OperandBehindASwitch_IsNoValueOfIt) {
  parser_.TakeOperands("FILE", "to read");
  ASSERT_TRUE(parser_.Parse({"--evaluate", "a"}, {}).ok());
  EXPECT_EQ(parser_.operands(), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(evaluate_);
}

TEST_F(OptionParserTest, Parse_ValueBehindASwitch_IsNoOperand) {
  parser_.TakeOperands("FILE", "to read");
  ASSERT_TRUE(parser_.Parse({"--evaluate", "false", "a"}, {}).ok());
  EXPECT_EQ(parser_.operands(), (std::vector<std::string>{"a"}));
  EXPECT_FALSE(evaluate_);
}

TEST_F(OptionParserTest, Parse_NumberBehindASwitch_IsAnOperandIfTheProgramTakesAny) {
  ASSERT_TRUE(parser_.Parse({"--evaluate", "0"}, {}).ok());
  EXPECT_FALSE(evaluate_);
  OptionParser other("gradwire-test", "Tests.", {"test"});
  other.Add("evaluate", "true|false", "at the end", Switch(&evaluate_));
  other.TakeOperands("DIR", "to read; after it a STEP");
  ASSERT_TRUE(other.Parse({"a", "--evaluate", "1"}, {}).ok());
  EXPECT_EQ(other.operands(), (std::vector<std::string>{"a", "1"}));
  EXPECT_TRUE(evaluate_);
}

TEST_F(OptionParserTest, Parse_List_GetsEachValueInTurn) {
  std::vector<std::string> values;
  OptionValue list;
  list.is_list = true;
  list.set = [&](const std::string& text) {
    values.push_back(text);
    return absl::OkStatus();
  };
  parser_.Add("each", "TEXT", "several", list);
  ASSERT_TRUE(parser_.Parse({"--each", "a", "--each=b"}, {}).ok());
  EXPECT_EQ(values, (std::vector<std::string>{"a", "b"}));
}

TEST_F(OptionParserTest, Parse_OperandsBehindDashes_MayLookLikeOptions) {
  parser_.TakeOperands("FILE", "to read");
  ASSERT_TRUE(parser_.Parse({"a", "--", "--b"}, {}).ok());
  EXPECT_EQ(parser_.operands(), (std::vector<std::string>{"a", "--b"}));
}

TEST_F(OptionParserTest, Parse_UnknownOptionAmongOperands_IsStillRefused) {
  parser_.TakeOperands("FILE", "to read");
  EXPECT_EQ(ErrorOf({"a", "--modle", "b"}), "unknown option --modle; did you mean --model?");
}

TEST_F(OptionParserTest, Help_Operands_AreShown) {
  parser_.TakeOperands("FILE", "to read");
  ASSERT_TRUE(parser_.Parse({"--help"}, {}).ok());
  EXPECT_THAT(parser_.print(), HasSubstr("gradwire-test [OPTIONS] [FILE...]"));
}

TEST_F(OptionParserTest, Parse_AllLayers_FlagWins) {
  testing::WriteFile(File(), "batch-size = 1\n");
  ASSERT_TRUE(parser_
                  .Parse({"--batch-size=4", "--config", File()}, {{"GRADWIRE_BATCH_SIZE", "3"}},
                         {{"batch-size", {"2", "OTHER"}}})
                  .ok());
  EXPECT_EQ(batch_size_, 4);
  EXPECT_EQ(parser_.source("batch-size").name, "--batch-size");
}

TEST_F(OptionParserTest, Parse_NoFlag_OwnEnvironmentWins) {
  testing::WriteFile(File(), "batch-size = 1\n");
  ASSERT_TRUE(parser_
                  .Parse({}, {{"GRADWIRE_BATCH_SIZE", "3"}, {"GRADWIRE_CONFIG", File()}},
                         {{"batch-size", {"2", "OTHER"}}})
                  .ok());
  EXPECT_EQ(batch_size_, 3);
  EXPECT_EQ(parser_.source("batch-size").name, "GRADWIRE_BATCH_SIZE");
}

TEST_F(OptionParserTest, Parse_LauncherAndFile_LauncherWins) {
  testing::WriteFile(File(), "batch-size = 1\n");
  ASSERT_TRUE(parser_.Parse({"--config", File()}, {}, {{"batch-size", {"2", "OTHER"}}}).ok());
  EXPECT_EQ(batch_size_, 2);
  EXPECT_EQ(parser_.source("batch-size").name, "OTHER");
}

TEST_F(OptionParserTest, Parse_FileOnly_FileCounts) {
  testing::WriteFile(File(), "batch_size = 5\nmodel = \"linear\"\nevaluate = true\n");
  ASSERT_TRUE(parser_.Parse({"--config", File()}, {}).ok());
  EXPECT_EQ(batch_size_, 5);
  EXPECT_EQ(model_, "linear");
  EXPECT_TRUE(evaluate_);
  EXPECT_EQ(parser_.source("batch-size").name, "batch-size in " + File());
}

TEST_F(OptionParserTest, Parse_FileWithSections_TakesOwnOnly) {
  testing::WriteFile(File(), "[other]\nsize = 9\n[test]\nbatch-size = 5\n");
  ASSERT_TRUE(parser_.Parse({"--config", File()}, {}).ok());
  EXPECT_EQ(batch_size_, 5);
}

TEST_F(OptionParserTest, Parse_MisspelledSection_IsRefused) {
  EXPECT_EQ(ErrorOfFile("[workers]\nsize = 9\n[test]\nbatch-size = 5\n"),
            File() + ": unknown section [workers]; did you mean [worker]?");
  EXPECT_EQ(ErrorOfFile("[tests]\nbatch-size = 5\n"),
            File() + ": unknown section [tests]; did you mean [test]?");
  testing::WriteFile(File(), "[worker]\nsize = 9\n[mine]\nsize = 9\n[model]\nsize = 9\n");
  EXPECT_EQ(ErrorOf({"--config", File()}), "");
}

TEST_F(OptionParserTest, Parse_KeyOnTopAndInSection_LastCounts) {
  testing::WriteFile(File(), "batch-size = 9\n[test]\nbatch-size = 5\n");
  ASSERT_TRUE(parser_.Parse({"--config", File()}, {}).ok());
  EXPECT_EQ(batch_size_, 5);
}

TEST_F(OptionParserTest, Parse_KeyOfAProgramWithTheSameSection_IsIgnoredThereOnly) {
  parser_.ShareSections({"batch-size", "sync", "config"});
  testing::WriteFile(File(), "[test]\nsync = ddp\nbatch-size = 5\n");
  ASSERT_TRUE(parser_.Parse({"--config", File()}, {}).ok());
  EXPECT_EQ(batch_size_, 5);
  EXPECT_THAT(ErrorOfFile("sync = ddp\n"), HasSubstr("unknown key 'sync'"));
  EXPECT_THAT(ErrorOfFile("[test]\nsink = ddp\n"), HasSubstr("unknown key 'sink'"));
  EXPECT_THAT(ErrorOfFile("[test]\nconfig = other.ini\n"), HasSubstr("unknown key 'config'"));
}

TEST_F(OptionParserTest, Parse_UnknownKey_NamesTheNearest) {
  EXPECT_THAT(ErrorOfFile("batchsize = 5\n"),
              HasSubstr("unknown key 'batchsize'; did you mean batch-size?"));
}

TEST_F(OptionParserTest, Parse_WrongValueInFile_NamesKeyAndFile) {
  EXPECT_EQ(ErrorOfFile("batch-size = x\n"),
            "batch-size in " + File() + ": got 'x', expected an integer of 1 or more");
}

TEST_F(OptionParserTest, Parse_TwoValuesInFile_AreRefused) {
  EXPECT_THAT(
      ErrorOfFile("batch-size = [1, 2]\n"),
      HasSubstr("batch-size: got 2 values, expected one; put a value with a comma or a blank in "
                "quotes"));
}

// Newer versions of CLI11 read the value to its end.
TEST_F(OptionParserTest, Parse_CommentSignWithinQuotes_CutsNoValue) {
  EXPECT_THAT(ErrorOfFile("batch-size = \"5#6\"\n"),
              AnyOf(HasSubstr("batch-size: got \"5, expected a quote at its end, too"),
                    HasSubstr("'5#6'")));
  EXPECT_THAT(ErrorOfFile("batch-size = '\"5\"'\n"), Not(HasSubstr("expected a quote")));
}

TEST_F(OptionParserTest, Parse_FileMissing_IsNotFound) {
  const absl::Status status = parser_.Parse({"--config", File()}, {});
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "cannot read the config file '" + File() + "'");
}

TEST_F(OptionParserTest, Parse_FileIsAFolder_IsRefused) {
  EXPECT_EQ(parser_.Parse({"--config", "/"}, {}).message(), "cannot read the config file '/'");
}

TEST_F(OptionParserTest, Parse_WrongVariable_NamesIt) {
  EXPECT_EQ(ErrorOf({}, {{"GRADWIRE_BATCH_SIZE", "0"}}),
            "GRADWIRE_BATCH_SIZE: got '0', expected an integer of 1 or more");
}

TEST_F(OptionParserTest, Parse_EmptyVariable_CountsAsAbsent) {
  EXPECT_TRUE(parser_.Parse({}, {{"GRADWIRE_BATCH_SIZE", ""}}).ok());
}

TEST_F(OptionParserTest, Parse_WrongLauncherValueThatIsOverridden_IsNotJudged) {
  EXPECT_TRUE(parser_.Parse({"--batch-size", "2"}, {}, {{"batch-size", {"x", "OTHER"}}}).ok());
}

TEST_F(OptionParserTest, Parse_WrongVariableThatIsOverridden_IsNotJudged) {
  EXPECT_TRUE(parser_.Parse({"--batch-size", "2"}, {{"GRADWIRE_BATCH_SIZE", "x"}}).ok());
}

TEST_F(OptionParserTest, Parse_LauncherValueOfNoOption_IsLeftAlone) {
  EXPECT_TRUE(parser_.Parse({}, {}, {{"local-rank", {"x", "OTHER"}}}).ok());
}

TEST_F(OptionParserTest, Parse_WrongLauncherValue_NamesTheVariable) {
  EXPECT_EQ(parser_.Parse({}, {}, {{"batch-size", {"x", "OTHER"}}}).message(),
            "OTHER: got 'x', expected an integer of 1 or more");
}

TEST_F(OptionParserTest, Parse_UnknownOption_NamesTheNearest) {
  EXPECT_EQ(ErrorOf({"--batchsize", "3"}),
            "unknown option --batchsize; did you mean --batch-size?");
}

TEST_F(OptionParserTest, Parse_UnknownOptionWithValue_NamesTheOptionAlone) {
  EXPECT_EQ(ErrorOf({"--modle=vgg11"}), "unknown option --modle; did you mean --model?");
}

TEST_F(OptionParserTest, Parse_OneDash_NamesTheNearest) {
  EXPECT_EQ(ErrorOf({"-model", "vgg11"}), "unknown option -model; did you mean --model?");
}

TEST_F(OptionParserTest, Parse_OptionOfAnotherLauncher_NamesOursIfThereIsOne) {
  EXPECT_EQ(ErrorOf({"-np", "4"}), "unknown option -np");
  int workers = 0;
  parser_.Add("workers", "N", "processes", Integer(&workers, 1));
  EXPECT_EQ(ErrorOf({"-np", "4"}), "unknown option -np; did you mean --workers?");
  std::string file;
  parser_.Add("hostfile", "FILE", "hosts", Text(&file));
  for (const char* theirs : {"-n", "--nproc_per_node", "--nproc-per-node"}) {
    EXPECT_EQ(ErrorOf({theirs, "4"}),
              std::string("unknown option ") + theirs + "; did you mean --workers?");
  }
  EXPECT_EQ(ErrorOf({"--machinefile=f"}), "unknown option --machinefile; did you mean --hostfile?");
}

TEST_F(OptionParserTest, Parse_UnknownOptionFarFromAll_NamesNone) {
  EXPECT_EQ(ErrorOf({"--zebra"}), "unknown option --zebra");
}

TEST_F(OptionParserTest, Parse_Positional_IsRefused) {
  EXPECT_EQ(ErrorOf({"train"}), "unexpected argument 'train'");
}

TEST_F(OptionParserTest, Parse_OptionWithoutDashes_GetsTheOption) {
  EXPECT_EQ(ErrorOf({"batchsize", "3"}),
            "unexpected argument 'batchsize'; did you mean --batch-size?");
}

TEST_F(OptionParserTest, MarkAgreement_AllRanksAgree_MarksTheFirstLineBehindTheDefault) {
  int threads = 3;
  parser_.Add("unmarked", "N", "before the call", Integer(&threads, 1), Agreement::kSetting);
  parser_.MarkAgreement("(everywhere)");
  parser_.Add("threads", "N", "to compute\nwith", Integer(&threads, 1), Agreement::kCompared);
  parser_.Add("differs", "N", "by rank", Integer(&threads, 1));
  ASSERT_TRUE(parser_.Parse({"--help"}, {}).ok());
  EXPECT_THAT(parser_.print(), ContainsRegex("to compute \\[3\\] \\(everywhere\\)\n +with\n"));
  EXPECT_THAT(parser_.print(), HasSubstr("before the call [3]\n"));
  EXPECT_THAT(parser_.print(), HasSubstr("by rank [3]\n"));
}

TEST_F(OptionParserTest, Parse_DoubleDash_IsRefused) {
  EXPECT_EQ(ErrorOf({"--", "x"}), "unexpected argument '--'");
}

TEST_F(OptionParserTest, Parse_ValueMissing_SaysWhatIsExpected) {
  EXPECT_EQ(ErrorOf({"--batch-size"}), "--batch-size: no value given, expected N");
  EXPECT_EQ(ErrorOf({"--batch-size", "--evaluate"}), "--batch-size: no value given, expected N");
}

TEST_F(OptionParserTest, Parse_NegativeNumber_IsAValue) {
  EXPECT_EQ(ErrorOf({"--batch-size", "-1"}),
            "--batch-size: got '-1', expected an integer of 1 or more");
}

TEST_F(OptionParserTest, Parse_GivenTwice_LastCounts) {
  ASSERT_TRUE(parser_.Parse({"--batch-size", "1", "--batch-size", "2"}, {}).ok());
  EXPECT_EQ(batch_size_, 2);
}

TEST_F(OptionParserTest, Parse_PlainSwitch_IsTrue) {
  ASSERT_TRUE(parser_.Parse({"--evaluate", "--batch-size", "2"}, {}).ok());
  EXPECT_TRUE(evaluate_);
}

TEST_F(OptionParserTest, Parse_SwitchWithValue_TakesIt) {
  evaluate_ = true;
  ASSERT_TRUE(parser_.Parse({"--evaluate", "false"}, {}).ok());
  EXPECT_FALSE(evaluate_);
}

TEST_F(OptionParserTest, Parse_SwitchWithOtherWord_IsRefused) {
  EXPECT_EQ(ErrorOf({"--evaluate", "maybe"}), "unexpected argument 'maybe'");
  EXPECT_EQ(ErrorOf({"--evaluate=maybe"}), "--evaluate: got 'maybe', expected true or false");
}

TEST_F(OptionParserTest, Parse_Help_ShowsUnitsAndDefaults) {
  ASSERT_TRUE(parser_.Parse({"--help", "--zebra"}, {}).ok());
  EXPECT_THAT(parser_.print(), HasSubstr("--batch-size N"));
  EXPECT_THAT(parser_.print(), HasSubstr("samples [64]"));
}

TEST_F(OptionParserTest, Help_ConfigFile_NamesTheSectionsOfTheProgram) {
  ASSERT_TRUE(parser_.Parse({"--help"}, {}).ok());
  EXPECT_THAT(parser_.print(), HasSubstr("in section [test]\n"));
  OptionParser of_two("gradwire-test", "", {"launch", "coordinator"});
  ASSERT_TRUE(of_two.Parse({"--help"}, {}).ok());
  EXPECT_THAT(of_two.print(), HasSubstr("in section [launch] or [coordinator]\n"));
  OptionParser of_none("gradwire-test", "", {});
  ASSERT_TRUE(of_none.Parse({"--help"}, {}).ok());
  EXPECT_THAT(of_none.print(), HasSubstr("with options as keys\n"));
}

TEST_F(OptionParserTest, Parse_Version_PrintsProgramAndBuild) {
  ASSERT_TRUE(parser_.Parse({"--version"}, {}).ok());
  EXPECT_THAT(parser_.print(), StartsWith(std::string("gradwire-test ") + GRADWIRE_VERSION + "\n"));
  for (const char* fact : {"protocol", "compiler", "libtorch", "gRPC", "BLAS", "instructions"}) {
    // With a value behind it.
    EXPECT_THAT(parser_.print(), ContainsRegex(std::string("\n  ") + fact + " +[^ \n]"));
  }
  EXPECT_THAT(parser_.print(),
              HasSubstr("\n  protocol     " + std::to_string(kProtocolVersion) + "\n"));
  EXPECT_THAT(parser_.print(), HasSubstr("\n  gRPC         " + grpc::Version() + "\n"));
  EXPECT_THAT(parser_.print(), HasSubstr(std::string("\n  instructions ") + KernelsInUse().name +
                                         " (sums), " + Xxh3InUse().name + " (checksums)\n"));
}

TEST_F(OptionParserTest, InForce_OneLayer_IsRefused) {
  ASSERT_TRUE(parser_.Parse({"--batch-size", "2", "--evaluate"}, {}).ok());
  EXPECT_EQ(parser_.InForce("batch-size", "evaluate").status().message(),
            "--batch-size and --evaluate exclude each other; give only one of them");
}

TEST_F(OptionParserTest, InForce_TwoLayers_StrongerCounts) {
  ASSERT_TRUE(parser_.Parse({"--evaluate"}, {{"GRADWIRE_BATCH_SIZE", "2"}}).ok());
  EXPECT_EQ(*parser_.InForce("batch-size", "evaluate"), "evaluate");
  EXPECT_EQ(*parser_.InForce("evaluate", "batch-size"), "evaluate");
  EXPECT_EQ(*parser_.InForce("batch-size", "model"), "batch-size");
}

TEST_F(OptionParserTest, InForce_NoneGiven_IsEmpty) {
  ASSERT_TRUE(parser_.Parse({}, {}).ok());
  EXPECT_EQ(*parser_.InForce("batch-size", "evaluate"), "");
}

TEST_F(OptionParserTest, CheckNeeds_OfOptionsThatWereGiven_FirstByNameCounts) {
  for (const char* name : {"b", "a"}) {
    parser_.Add(name, "N", "", Integer(&batch_size_, 1), Agreement::kMayDiffer,
                [](const std::string& source, const Sources& sources) {
                  return absl::InvalidArgumentError(source + " and " + sources.at("model").name);
                });
  }
  ASSERT_TRUE(parser_.Parse({"--model", "linear"}, {}).ok());
  EXPECT_TRUE(parser_.CheckNeeds().ok());
  ASSERT_TRUE(parser_.Parse({"--b", "1"}, {{"GRADWIRE_A", "1"}}).ok());
  EXPECT_EQ(parser_.CheckNeeds().message(), "GRADWIRE_A and --model");
}

TEST(Environment, UnknownVariables_Unknown_NamesTheNearest) {
  const std::vector<std::string> sentences =
      UnknownVariables({{"GRADWIRE_BATCHSIZE", "3"}, {"GRADWIRE_LR", "1"}, {"HOME", "/"}});
  EXPECT_THAT(sentences,
              ::testing::ElementsAre("unknown environment variable GRADWIRE_BATCHSIZE; did you "
                                     "mean GRADWIRE_BATCH_SIZE?"));
}

TEST(EarlyExitTest, EarlyExit_HelpIsPrinted_ExitsWith0) {
  EXPECT_EQ(EarlyExit("gradwire-test", absl::OkStatus(), {}, "help\n"), kExitDone);
}

TEST(EarlyExitTest, EarlyExit_HelpCannotBePrinted_ExitsWith1) {
  std::cout.setstate(std::ios::badbit);  // as when stdout is a full disk
  const absl::optional<int> exit_code = EarlyExit("gradwire-test", absl::OkStatus(), {}, "help\n");
  std::cout.clear();
  EXPECT_EQ(exit_code, kExitFailed);
}

}  // namespace
}  // namespace gradwire
