// Whatever a file of weights holds, it is read or refused; see tests/fuzz.

#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_target.h"
#include "worker/weights/safetensors.h"

namespace gradwire {

std::string ViolatedBySafetensors(absl::string_view input);
std::vector<std::string> SafetensorsSeeds();

namespace {

TEST(WeightsAnyFile, Safetensors_InputsAndChangesOfThem_NoPropertyIsViolated) {
  EXPECT_EQ(TryAll({"safetensors", &ViolatedBySafetensors, &SafetensorsSeeds, 4000}), "");
}

// Far deeper than a stack is.
TEST(WeightsAnyFile, Safetensors_DeepHeader_InvalidArgument) {
  constexpr size_t kDepth = 1'000'000;
  const std::string header = R"({"a":)" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}";
  const uint64_t length = header.size();
  const std::string prefix(reinterpret_cast<const char*>(&length), sizeof(length));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSafetensors(prefix + header).status()));
}

}  // namespace
}  // namespace gradwire
