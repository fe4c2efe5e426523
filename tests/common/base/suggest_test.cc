#include <gtest/gtest.h>

#include "common/base/plain_text.h"

namespace gradwire {
namespace {

TEST(Suggest, Nearest_DashLeftOut_FindsTheOption) {
  EXPECT_EQ(Nearest("batchsize", {"backend", "batch-size", "bucket-cap-mb"}), "batch-size");
}

TEST(Suggest, Nearest_SwappedLetters_FindsTheOption) {
  EXPECT_EQ(Nearest("mdoel", {"model", "momentum"}), "model");
}

TEST(Suggest, Nearest_Beginning_FindsTheOption) {
  EXPECT_EQ(Nearest("iter", {"epochs", "iterations"}), "iterations");
}

TEST(Suggest, Nearest_NothingNear_IsEmpty) {
  EXPECT_EQ(Nearest("zebra", {"epochs", "iterations"}), "");
}

TEST(Suggest, DidYouMean_Near_NamesIt) {
  EXPECT_EQ(DidYouMean("epoch", {"epochs"}, "--"), "; did you mean --epochs?");
}

TEST(Suggest, ExpectedOneOf_Names_AreListedWithTheNearest) {
  EXPECT_EQ(ExpectedOneOf({"ddp", "none"}, "dpp"), "expected one of ddp, none; did you mean ddp?");
  EXPECT_EQ(ExpectedOneOf({"ddp", "none"}, "zebra"), "expected one of ddp, none");
  EXPECT_EQ(ExpectedOneOf({"ddp"}, ""), "expected ddp");
}

TEST(Suggest, DidYouMean_NothingNear_SaysNothing) {
  EXPECT_EQ(DidYouMean("zebra", {"epochs"}, "--"), "");
}

}  // namespace
}  // namespace gradwire
