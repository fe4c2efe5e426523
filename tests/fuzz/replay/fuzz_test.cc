// What the fuzzers run, on their seeds and corpora and on some changes of them, so that every run
// of the tests covers it.

#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_target.h"

namespace gradwire {
namespace {

std::vector<FuzzTarget> Targets() {
  return {
#define GRADWIRE_FUZZ_TARGET(name, Name, mutations) \
  {name, &ViolatedBy##Name, &Name##Seeds, mutations},
#include "tests/fuzz/targets.inc"
#undef GRADWIRE_FUZZ_TARGET
  };
}

class FuzzTest : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzTest, InputsAndChangesOfThem_NoPropertyIsViolated) { EXPECT_EQ(TryAll(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(Targets, FuzzTest, ::testing::ValuesIn(Targets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gradwire
