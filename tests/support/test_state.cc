#include "tests/support/test_state.h"

#include <cstring>
#include <memory>

namespace gradwire::testing {

std::vector<StateSection> SmallSections() {
  const auto f32 = TensorType::kFloat32;
  return {
      {kModelSection, {{"0.weight", f32, {4, 25}}, {"0.bias", f32, {4}}, {"2.weight", f32, {60}}}},
      {kOptimizerSection,
       {{"0.weight/momentum_buffer", f32, {4, 25}},
        {"0.bias/momentum_buffer", f32, {4}},
        {"2.weight/momentum_buffer", f32, {60}}}},
      {kRanksSection,
       {{"0/buffers/1.running_mean", f32, {4}}, {"1/buffers/1.running_mean", f32, {4}}}}};
}

StatePlan SmallPlan() { return StatePlan::Make(SmallSections(), 64, 512).value(); }

std::string PartOf(const StatePlan& plan, int part, int64_t step) {
  std::string bytes(static_cast<size_t>(plan.parts()[part].bytes), '\0');
  for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    const auto value =
        static_cast<float>(step) + static_cast<float>(part) / 64 + static_cast<float>(i) / 65536;
    std::memcpy(&bytes[i], &value, sizeof(value));
  }
  return bytes;
}

Manifest SmallManifest() {
  Manifest manifest;
  manifest.version = "0.2.0";
  manifest.run_id = "00112233445566778899aabbccddeeff";
  manifest.world_size = 2;
  manifest.threads = 1;
  manifest.total_steps = 100;
  manifest.steps_per_epoch = 10;
  manifest.time = absl::FromUnixSeconds(1790000000);
  manifest.settings = {{"model", "vgg11"}, {"seed", "744"}};
  manifest.environment = {{"blas", "OpenBLAS"}};
  manifest.optimizer = {"sgd", {{{{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 1e-4}}, {}}}};
  return manifest;
}

namespace {

absl::StatusOr<std::string> WriteSmall(absl::StatusOr<std::unique_ptr<CheckpointWriter>> writer,
                                       int64_t values) {
  if (!writer.ok()) return writer.status();
  const StatePlan& plan = (*writer)->plan();
  // The last part first: the order is free.
  for (auto part = static_cast<int>(plan.parts().size()); part-- > 0;) {
    const absl::Status status = (*writer)->Write(part, PartOf(plan, part, values));
    if (!status.ok()) return status;
  }
  return (*writer)->Publish(SmallManifest());
}

}  // namespace

absl::StatusOr<std::string> PublishSmall(const std::string& run_dir, int64_t step, Disk* disk) {
  return WriteSmall(CheckpointWriter::Open(run_dir, step, SmallPlan(), disk), step);
}

absl::StatusOr<std::string> ReplaceSmall(const std::string& run_dir, int64_t step, int64_t values,
                                         Disk* disk) {
  return WriteSmall(CheckpointWriter::Open(run_dir, step, SmallPlan(), disk, IfPublished::kReplace),
                    values);
}

}  // namespace gradwire::testing
