#include "worker/report/epochs.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

// Of 2 s, a quarter of them in data.
StepRecord Record(int64_t epoch, double loss, int64_t samples, int64_t correct) {
  StepRecord record;
  record.epoch = epoch;
  record.loss = loss;
  record.samples = samples;
  record.correct = correct;
  record.lr = 0.1 * static_cast<double>(epoch + 1);
  record.iteration = absl::Seconds(2);
  record.phases[Phase::kData] = absl::Milliseconds(500);
  return record;
}

class EpochCollectorTest : public ::testing::Test {
 protected:
  EpochCollectorTest() {
    EXPECT_FALSE(collector_.Add(Record(0, 3, 6, 2)).has_value());
    EXPECT_FALSE(collector_.Add(Record(0, 1, 2, 2)).has_value());
  }
  EpochCollector collector_;
};

TEST_F(EpochCollectorTest, Add_FirstOfTheNextEpoch_GivesTheRowBefore) {
  const auto row = collector_.Add(Record(1, 5, 4, 1));
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->epoch, 0);
  EXPECT_EQ(row->iterations, 2);
  EXPECT_DOUBLE_EQ(row->seconds, 4);
  EXPECT_DOUBLE_EQ(row->seconds_without_loading, 3);
  EXPECT_DOUBLE_EQ(row->lr, 0.1);
}

TEST_F(EpochCollectorTest, Add_LearningRateChanges_RowHasTheLast) {
  StepRecord record = Record(0, 1, 2, 2);
  record.lr = 0.025;
  collector_.Add(record);
  EXPECT_DOUBLE_EQ(collector_.rows().at(0).lr, 0.025);
}

// A small batch counts less.
TEST_F(EpochCollectorTest, Add_BatchesOfSeveralSizes_MeansOverSamples) {
  const EpochRow row = collector_.rows().at(0);
  EXPECT_DOUBLE_EQ(row.train.loss, 2.5);
  EXPECT_DOUBLE_EQ(row.train.accuracy, 0.5);
}

TEST_F(EpochCollectorTest, Finish_WithinAnEpoch_GivesItOnce) {
  collector_.Add(Record(1, 5, 4, 1));
  const auto row = collector_.Finish();
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->iterations, 1);
  EXPECT_DOUBLE_EQ(row->train.loss, 5);
  EXPECT_DOUBLE_EQ(row->train.accuracy, 0.25);
  EXPECT_FALSE(collector_.Finish().has_value());
  EXPECT_EQ(collector_.rows().size(), 2u);
}

TEST_F(EpochCollectorTest, SetTest_BetweenEpochs_BelongsToTheOneBefore) {
  collector_.SetTest({2, 0.75});
  collector_.Add(Record(1, 5, 4, 1));
  const std::vector<EpochRow> rows = collector_.rows();
  ASSERT_TRUE(rows[0].test.has_value());
  EXPECT_EQ(rows[0].test->accuracy, 0.75);
  EXPECT_FALSE(rows[1].test.has_value());
}

TEST_F(EpochCollectorTest, Test_IsThatAfterTheLastStep) {
  EXPECT_FALSE(collector_.test().has_value());
  collector_.SetTest({2, 0.75});
  EXPECT_EQ(collector_.test()->accuracy, 0.75);
  collector_.Add(Record(1, 5, 4, 1));
  EXPECT_FALSE(collector_.test().has_value());
}

// Of a run that resumes when all steps are done.
TEST(EpochCollector, SetTest_NoSteps_IsKeptWithoutARow) {
  EpochCollector collector;
  collector.SetTest({2, 0.75});
  EXPECT_FALSE(collector.Finish().has_value());
  EXPECT_TRUE(collector.rows().empty());
  ASSERT_TRUE(collector.test().has_value());
  EXPECT_EQ(collector.test()->accuracy, 0.75);
}

TEST_F(EpochCollectorTest, EpochJson_Row_HasTheFieldsThatScriptsRelyOn) {
  collector_.SetTest({2, 0.75});
  EXPECT_EQ(EpochJson(collector_.rows().at(0)).dump(),
            "{\"epoch\":0,\"iterations\":2,\"seconds\":4.0,\"seconds_without_loading\":3.0,"
            "\"loss\":2.5,\"accuracy\":0.5,\"lr\":0.1,\"test\":{\"loss\":2.0,\"accuracy\":0.75}}");
}

}  // namespace
}  // namespace gradwire
