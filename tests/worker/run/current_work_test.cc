#include <gtest/gtest.h>

#include "worker/run/step_reporter.h"

namespace gradwire {
namespace {

const absl::Time kNow = absl::UnixEpoch();

TEST(CurrentWork, At_BeforeAnything_None) { EXPECT_FALSE(CurrentWork().At(kNow).has_value()); }

TEST(CurrentWork, At_Computing_SinceItBegan) {
  CurrentWork work;
  work.Begin("backward", Step(17), false, absl::nullopt, kNow);
  const v1::Work told = *work.At(kNow + absl::Milliseconds(1500));
  EXPECT_EQ(told.phase(), "backward");
  EXPECT_EQ(told.step(), 17u);
  EXPECT_FALSE(told.waits());
  EXPECT_FALSE(told.has_bucket());
  EXPECT_EQ(told.seconds(), 1.5);
}

TEST(CurrentWork, At_WaitingForABucket_NamesIt) {
  CurrentWork work;
  work.Begin("backward", Step(17), false, absl::nullopt, kNow);
  work.Begin("wait", Step(17), true, Bucket(0), kNow + absl::Seconds(1));
  const v1::Work told = *work.At(kNow + absl::Seconds(3));
  EXPECT_TRUE(told.waits());
  EXPECT_TRUE(told.has_bucket());
  EXPECT_EQ(told.bucket(), 0u);
  EXPECT_EQ(told.seconds(), 2);
}

TEST(CurrentWork, SetGeneration_WhatBeganBefore_KeepsItsOwn) {
  CurrentWork work;
  work.SetGeneration(Generation(1));
  work.Begin("wait", Step(17), true, absl::nullopt, kNow);
  work.SetGeneration(Generation(2));
  EXPECT_EQ(work.At(kNow)->generation(), 1u);
  work.Begin("data", Step(17), false, absl::nullopt, kNow);
  EXPECT_EQ(work.At(kNow)->generation(), 2u);
}

}  // namespace
}  // namespace gradwire
