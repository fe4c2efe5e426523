#include "cli/launch/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/report/summary.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Of an iteration of 100 ms; forward and backward take what the others leave.
RankTimes TimesOf(int rank, double data, double exposed, double optimizer, double iteration = 0.1) {
  RankTimes times;
  times.rank = rank;
  times.iteration = iteration;
  times.phases[Phase::kData] = data;
  times.phases[Phase::kExposedCommunication] = exposed;
  times.phases[Phase::kCommunication] = exposed;
  times.phases[Phase::kOptimizer] = optimizer;
  times.phases[Phase::kBackward] = iteration - data - exposed - optimizer;
  return times;
}

RunTimes RunOf(std::vector<RankTimes> ranks) {
  RunTimes run;
  run.ranks = std::move(ranks);
  run.sync = "gather-scatter";
  run.backend = "coordinator";
  run.wire = "fp32";
  return run;
}

RunTimes Exposed() { return RunOf({TimesOf(0, 0, 0.06, 0.01), TimesOf(1, 0, 0.06, 0.01)}); }

TEST(FindBottleneck, NoRank_IsUnknown) {
  EXPECT_EQ(FindBottleneck(RunTimes()).kind, BottleneckKind::kUnknown);
}

TEST(FindBottleneck, OneIteration_IsUnknownAndSaysWhy) {
  const Bottleneck found = FindBottleneck(RunOf({TimesOf(0, 0, 0, 0, kUnmeasured)}));
  EXPECT_EQ(found.kind, BottleneckKind::kUnknown);
  EXPECT_EQ(found.sentence,
            "Bottleneck: not known, for no rank ran two iterations (the first one warms up).");
}

TEST(FindBottleneck, MostlyBackward_IsComputation) {
  const Bottleneck found =
      FindBottleneck(RunOf({TimesOf(0, 0, 0.01, 0.01), TimesOf(1, 0, 0.01, 0.01)}));
  EXPECT_EQ(found.kind, BottleneckKind::kComputation);
  EXPECT_EQ(found.sentence,
            "Bottleneck: computation (forward and backward), 80.0 of 100.0 ms an iteration (80 %); "
            "try further hosts, faster ones, or more --threads if cores are idle.");
}

TEST(FindBottleneck, OneRank_IsToldOfMoreWorkers) {
  EXPECT_THAT(FindBottleneck(RunOf({TimesOf(0, 0, 0, 0.01)})).sentence,
              HasSubstr("try more workers"));
}

TEST(FindBottleneck, ExposedWithoutOverlap_AdvisesDdpHalfBytesBatchAndBandwidth) {
  const Bottleneck found = FindBottleneck(Exposed());
  EXPECT_EQ(found.kind, BottleneckKind::kExposedCommunication);
  EXPECT_EQ(found.sentence,
            "Bottleneck: exposed communication, 60.0 of 100.0 ms an iteration (60 %); try --sync "
            "ddp (transfers run beside backward), --wire bf16 (half the bytes), a larger "
            "--batch-size or --accumulate or more bandwidth.");
}

TEST(FindBottleneck, ExposedWithDdpAndHalfBytes_AdvisesNeither) {
  RunTimes run = Exposed();
  run.sync = "ddp";
  run.wire = "bf16";
  const std::string sentence = FindBottleneck(run).sentence;
  EXPECT_THAT(sentence, Not(HasSubstr("--sync")));
  EXPECT_THAT(sentence, Not(HasSubstr("--wire")));
}

TEST(FindBottleneck, ExposedWithGloo_AdvisesNoWireThatItCannotSend) {
  RunTimes run = Exposed();
  run.backend = "gloo";
  EXPECT_THAT(FindBottleneck(run).sentence, Not(HasSubstr("--wire")));
}

TEST(FindBottleneck, ExposedOnIdleLinks_AdvisesNoBandwidth) {
  RunTimes run = Exposed();
  run.link_share = 0.2;
  const std::string sentence = FindBottleneck(run).sentence;
  EXPECT_THAT(sentence, HasSubstr("with the links at 20 % of their speed"));
  EXPECT_THAT(sentence, Not(HasSubstr("bandwidth")));
}

TEST(FindBottleneck, ExposedOnFullLinks_AdvisesBandwidth) {
  RunTimes run = Exposed();
  run.link_share = 0.9;
  EXPECT_THAT(FindBottleneck(run).sentence, HasSubstr("more bandwidth"));
}

TEST(FindBottleneck, ExposedInUnknownSetup_SaysIfNotUsed) {
  RunTimes run = Exposed();
  run.sync = run.backend = run.wire = "";
  EXPECT_THAT(FindBottleneck(run).sentence,
              HasSubstr("--sync ddp and --wire bf16 if they were not used"));
}

TEST(FindBottleneck, WaitingForData_IsNamed) {
  const Bottleneck found =
      FindBottleneck(RunOf({TimesOf(0, 0.4, 0, 0, 0.5), TimesOf(1, 0.4, 0, 0, 0.5)}));
  EXPECT_EQ(found.kind, BottleneckKind::kData);
  EXPECT_THAT(found.sentence, HasSubstr("waiting for data, 400.0 of 500.0 ms"));
}

TEST(FindBottleneck, Optimizer_IsNamed) {
  const Bottleneck found = FindBottleneck(RunOf({TimesOf(0, 0, 0.01, 0.05)}));
  EXPECT_EQ(found.kind, BottleneckKind::kOptimizer);
  EXPECT_THAT(found.sentence, HasSubstr("the optimizer, 50.0 of 100.0 ms"));
}

TEST(FindBottleneck, OneRankWorksLonger_IsStragglerWithItsPhase) {
  const Bottleneck found = FindBottleneck(
      RunOf({TimesOf(0, 0, 0.05, 0), TimesOf(1, 0.03, 0, 0), TimesOf(2, 0, 0.05, 0)}));
  EXPECT_EQ(found.kind, BottleneckKind::kStraggler);
  EXPECT_EQ(found.sentence,
            "Bottleneck: rank 1, whose own work takes 100.0 ms an iteration, the others' 50.0 ms "
            "(most of it waiting for data); look at what else its host does, or give it another.");
}

TEST(FindBottleneck, SlightlySlowerRank_IsNoStraggler) {
  const RunTimes run = RunOf({TimesOf(0, 0, 0.05, 0), TimesOf(1, 0, 0.045, 0)});
  EXPECT_EQ(FindBottleneck(run).kind, BottleneckKind::kExposedCommunication);
}

TEST(FindBottleneck, RankWithoutTimes_IsLeftOut) {
  const RunTimes run = RunOf({TimesOf(0, 0, 0.06, 0), TimesOf(1, 0, 0, 0, kUnmeasured)});
  EXPECT_EQ(FindBottleneck(run).kind, BottleneckKind::kExposedCommunication);
}

}  // namespace
}  // namespace gradwire
