#include "bench/training_rows.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "bench/setups.h"

namespace gradwire {
namespace {

std::string Line(double iteration, double exposed) {
  return absl::StrCat("{\"step\":0,\"iteration_seconds\":", iteration,
                      ",\"phase_seconds\":{\"exposed_communication\":", exposed, "}}\n");
}

std::string SummaryWithHash(const std::string& hash) {
  return absl::StrCat("{\n  \"parameters_sha256\": \"", hash, "\"\n}\n");
}

TrainingTimes Seconds(std::vector<double> iterations) {
  TrainingTimes times;
  times.iteration_seconds = std::move(iterations);
  return times;
}

TEST(AddRound, TwoRanks_TakesTheirMeanAndLeavesOutTheFirst) {
  TrainingTimes times;
  ASSERT_TRUE(
      AddRound({Line(9, 0) + Line(1, 0.2) + Line(4, 0.4), Line(9, 0) + Line(2, 0.4) + Line(3, 0.8)},
               false, &times)
          .ok());
  EXPECT_EQ(times.iteration_seconds, (std::vector<double>{1.5, 3.5}));
  ASSERT_EQ(times.exposed_seconds.size(), 2u);
  EXPECT_DOUBLE_EQ(times.exposed_seconds[0], 0.3);
  EXPECT_DOUBLE_EQ(times.exposed_seconds[1], 0.6);
}

TEST(AddRound, SeveralRounds_AreKeptTogether) {
  TrainingTimes times;
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(AddRound({Line(9, 0) + Line(1, 0)}, false, &times).ok());
  }
  EXPECT_EQ(times.iteration_seconds.size(), 2u);
}

TEST(AddRound, NoPhases_LeavesExposedUnmeasured) {
  TrainingTimes times;
  const std::string line = "{\"iteration_seconds\": 1}\n";
  ASSERT_TRUE(AddRound({line + line}, false, &times).ok());
  EXPECT_TRUE(times.exposed_seconds.empty());
  EXPECT_EQ(times.iteration_seconds.size(), 1u);
}

TEST(AddRound, EqualHashes_Agree) {
  TrainingTimes times;
  const std::string rank = Line(1, 0) + SummaryWithHash("a");
  ASSERT_TRUE(AddRound({rank, rank}, true, &times).ok());
  EXPECT_TRUE(times.ranks_agree);
}

TEST(AddRound, DifferentHashes_DisagreeWhereTheyAreCompared) {
  const std::vector<std::string> ranks = {Line(1, 0) + SummaryWithHash("a"),
                                          Line(1, 0) + SummaryWithHash("b")};
  TrainingTimes compared, alone;
  ASSERT_TRUE(AddRound(ranks, true, &compared).ok());
  ASSERT_TRUE(AddRound(ranks, false, &alone).ok());
  EXPECT_FALSE(compared.ranks_agree);
  EXPECT_TRUE(alone.ranks_agree);
}

TEST(AddRound, OtherOutput_NamesTheRank) {
  TrainingTimes times;
  EXPECT_EQ(AddRound({Line(1, 0), "hello\n"}, false, &times).message(),
            "rank 1 printed a line that is no JSON object: hello");
  EXPECT_EQ(AddRound({"{\"step\": 1}\n"}, false, &times).message(),
            "rank 0 printed an iteration without iteration_seconds");
}

TEST(AddRound, UnequalIterations_AreRefused) {
  TrainingTimes times;
  EXPECT_EQ(AddRound({Line(1, 0) + Line(1, 0), Line(1, 0)}, false, &times).message(),
            "rank 1 printed 1 iterations, rank 0 2");
}

TEST(TrainingRows, Computation_IsWhatOthersAreMeasuredAgainst) {
  const TableRows rows =
      TrainingRows({"computation", "all-reduce"},
                   {{"computation", Seconds({1, 1})}, {"all-reduce", Seconds({2, 2})}});
  EXPECT_DOUBLE_EQ(rows[1]["p50_seconds"], 2);
  EXPECT_DOUBLE_EQ(rows[1]["over_computation_seconds"], 1);
  EXPECT_DOUBLE_EQ(rows[1]["efficiency_percent"], 50);
}

TEST(TrainingRows, NoComputation_LeavesGaps) {
  const TableRows rows = TrainingRows({"all-reduce"}, {{"all-reduce", Seconds({2, 2})}});
  EXPECT_TRUE(rows[0]["efficiency_percent"].is_null());
  EXPECT_TRUE(rows[0]["exposed_seconds"].is_null());
}

TEST(ComparisonRows, SetUpWithItsPeer_GivesTheRatio) {
  const TableRows rows = ComparisonRows({"all-reduce", "gloo-all-reduce", "gather-scatter"},
                                        {{"all-reduce", Seconds({1})},
                                         {"gloo-all-reduce", Seconds({2})},
                                         {"gather-scatter", Seconds({3})}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["peer"], "gloo-all-reduce");
  EXPECT_DOUBLE_EQ(rows[0]["ratio"], 0.5);
}

TEST(Setups, Peers_AreLinesOfTheTable) {
  for (const auto& setup : Setups()) {
    for (const std::string& peer : setup.peers) {
      EXPECT_EQ(SetupCalled(peer).kind, SetupKind::kPeer) << setup.name;
    }
  }
}

TEST(CompleteSetups, NothingChosen_GivesPeersOnlyIfWanted) {
  std::vector<std::string> own, all;
  ASSERT_TRUE(CompleteSetups(false, "fashion-mnist", &own).ok());
  ASSERT_TRUE(CompleteSetups(true, "cifar10", &all).ok());
  EXPECT_EQ(all, SetupNames());
  for (const std::string& name : own) EXPECT_NE(SetupCalled(name).kind, SetupKind::kPeer);
  EXPECT_LT(own.size(), all.size());
}

TEST(CompleteSetups, PeerWithoutPeers_IsRefused) {
  std::vector<std::string> chosen = {"gloo-ddp"};
  EXPECT_EQ(CompleteSetups(false, "cifar10", &chosen).message(),
            "--setups: gloo-ddp is PyTorch + Gloo and needs --peers");
}

TEST(CompleteSetups, DatasetThatPeersCannotRead_IsRefused) {
  std::vector<std::string> chosen = {"gloo-ddp"};
  EXPECT_EQ(CompleteSetups(true, "mnist", &chosen).message(),
            "--dataset: got 'mnist', expected cifar10 or synthetic with --peers");
}

}  // namespace
}  // namespace gradwire
