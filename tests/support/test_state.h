#ifndef GRADWIRE_TESTS_SUPPORT_TEST_STATE_H_
#define GRADWIRE_TESTS_SUPPORT_TEST_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/disk.h"
#include "common/state/checkpoint_writer.h"
#include "common/state/manifest.h"
#include "common/state/state_plan.h"

namespace gradwire::testing {

// Sections of a small model with momentum and buffers; 1,344 bytes.
std::vector<StateSection> SmallSections();
// Their plan, with files of 512 bytes and parts of 64.
StatePlan SmallPlan();
// Finite float32 values of a part that depend on `step`.
std::string PartOf(const StatePlan& plan, int part, int64_t step);
// A manifest of a run with one rank and SGD, but for what the writer fills in.
Manifest SmallManifest();
// Publishes a checkpoint with these values, or with those of step `values`.
absl::StatusOr<std::string> PublishSmall(const std::string& run_dir, int64_t step, Disk* disk);
absl::StatusOr<std::string> ReplaceSmall(const std::string& run_dir, int64_t step, int64_t values,
                                         Disk* disk);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_TEST_STATE_H_
