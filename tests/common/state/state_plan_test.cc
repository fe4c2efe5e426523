#include "common/state/state_plan.h"

#include <gmock/gmock.h>

#include "tests/support/test_state.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallPlan;

std::string WhyNoPlan(std::vector<StateSection> sections) {
  const auto plan = StatePlan::Make(std::move(sections));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(StatePlan, Files_EndBeforeTheTensorThatIsTooMuch) {
  const StatePlan plan = SmallPlan();
  std::vector<std::string> names;
  for (const StateFile& file : plan.files()) names.push_back(file.name);
  EXPECT_THAT(
      names,
      ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                  "optimizer-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors",
                  "ranks-00001-of-00001.safetensors"));
  EXPECT_EQ(plan.bytes(), 1344);
}

TEST(StatePlan, Parts_CoverEachTensorOnceInOrder) {
  const StatePlan plan = SmallPlan();
  std::vector<StateSection> sections = plan.sections();
  std::vector<std::vector<int64_t>> covered(sections.size());
  for (size_t i = 0; i < sections.size(); ++i) covered[i].resize(sections[i].tensors.size());
  for (int part = 0; part < static_cast<int>(plan.parts().size()); ++part) {
    int64_t bytes = 0;
    for (const StateRange& range : plan.RangesOf(part)) {
      EXPECT_EQ(range.begin, covered[range.section][range.tensor]);
      covered[range.section][range.tensor] += range.bytes;
      bytes += range.bytes;
    }
    EXPECT_EQ(bytes, plan.parts()[part].bytes);
    EXPECT_LE(bytes, 64);
  }
  EXPECT_THAT(covered, ElementsAre(ElementsAre(400, 16, 240), ElementsAre(400, 16, 240),
                                   ElementsAre(16, 16)));
}

TEST(StatePlan, PlaceOf_IsWhereTheRangesOfAPartBegin) {
  const StatePlan plan = SmallPlan();
  for (int section = 0; section < 3; ++section) {
    for (int tensor = 0; tensor < static_cast<int>(plan.sections()[section].tensors.size());
         ++tensor) {
      const StatePlan::Place place = plan.PlaceOf(section, tensor);
      int64_t before = 0;
      bool found = false;
      for (const StateRange& range : plan.RangesOf(place.part)) {
        found = range.section == section && range.tensor == tensor && range.begin == 0;
        if (found) break;
        before += range.bytes;
      }
      EXPECT_TRUE(found);
      EXPECT_EQ(place.begin, before);
    }
  }
}

TEST(StatePlan, Make_SectionWithoutTensors_IsDropped) {
  const auto plan = StatePlan::Make({{"model", {{"a", TensorType::kFloat32, {}}}}, {"outer", {}}});
  EXPECT_EQ(plan->sections().size(), 1u);
  EXPECT_EQ(plan->FindSection("outer"), -1);
}

TEST(StatePlan, Make_WrongSections_AreNamed) {
  const StoredTensor a = {"a", TensorType::kFloat32, {2}};
  EXPECT_THAT(WhyNoPlan({{"Model", {a}}}), HasSubstr("got 'Model', expected a new name"));
  EXPECT_THAT(WhyNoPlan({{"../x", {a}}}), HasSubstr("expected a new name"));
  EXPECT_THAT(WhyNoPlan({{"model", {a}}, {"model", {a}}}), HasSubstr("got 'model'"));
  EXPECT_THAT(WhyNoPlan({{"model", {a, a}}}), HasSubstr("got two tensors 'a'"));
  EXPECT_THAT(WhyNoPlan({{"model", {{"", a.type, {2}}}}}), HasSubstr("expected UTF-8"));
  EXPECT_THAT(WhyNoPlan({{"model", {{"\xff", a.type, {2}}}}}), HasSubstr("expected UTF-8"));
  EXPECT_THAT(WhyNoPlan({{"model", {{"__metadata__", a.type, {2}}}}}),
              HasSubstr("UTF-8 other than"));
  EXPECT_THAT(WhyNoPlan({{"model", {{"a", a.type, {0}}}}}), HasSubstr("at least one element"));
  EXPECT_THAT(WhyNoPlan({{"model", {{"a", a.type, {-1}}}}}), HasSubstr("F32 [-1]"));
  EXPECT_THAT(WhyNoPlan({{"model", {{"a", a.type, {int64_t{1} << 62}}}}}), HasSubstr("fit int64"));
  EXPECT_THAT(WhyNoPlan({{"model",
                          {{"a", TensorType::kInt8, {int64_t{1} << 62}},
                           {"b", TensorType::kInt8, {int64_t{1} << 62}}}}}),
              HasSubstr("'b'"));
}

// Else checkpoints of other versions could no longer be read.
TEST(StatePlan, Files_TensorThatJustFits_IsInTheFile) {
  const StoredTensor a = {"a", TensorType::kFloat32, {2}}, b = {"b", TensorType::kFloat32, {2}};
  const auto files_of = [&](int64_t file_bytes) {
    return StatePlan::Make({{"model", {a, b}}}, 64, file_bytes)->files().size();
  };
  EXPECT_EQ(files_of(16), 1u);
  EXPECT_EQ(files_of(15), 2u);
  EXPECT_EQ(files_of(7), 2u);  // a tensor is never divided
}

TEST(StatePlan, Parts_FileOfWholeParts_HasNoEmptyOne) {
  const auto plan = StatePlan::Make({{"model", {{"a", TensorType::kFloat32, {32}}}}}, 64, 512);
  ASSERT_EQ(plan->parts().size(), 2u);
  EXPECT_EQ(plan->parts()[1].bytes, 64);
}

}  // namespace
}  // namespace gradwire
