#ifndef GRADWIRE_COMMON_STATE_CHECKPOINT_READER_H_
#define GRADWIRE_COMMON_STATE_CHECKPOINT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/address.h"
#include "common/state/manifest.h"
#include "common/state/state_plan.h"

namespace gradwire {

// Reads one published checkpoint. Never changes it. Memory: the manifest, the headers and one part.
// Statuses name the file. Thread-safe.
class CheckpointReader {
 public:
  // Checks the manifest, the files' sizes and headers, and that they are of `step`.
  //   NotFound         the folder or its manifest does not exist or cannot be read
  //   InvalidArgument  manifest or a file is missing, damaged, foreign, or of another format
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& folder);

  const Manifest& manifest() const { return manifest_; }
  const StatePlan& plan() const { return plan_; }

  // Reads a part and checks its hash. `out`: as many bytes as the part has. InvalidArgument if the
  // file is damaged: names the first tensor in the part.
  absl::Status Read(int part, absl::Span<uint8_t> out) const;
  // Reads and checks all parts. Also InvalidArgument if the model or the optimizer's state has a
  // value that is not finite.
  absl::Status Verify() const;

 private:
  explicit CheckpointReader(std::string folder) : folder_(std::move(folder)) {}
  absl::Status OpenFiles();
  // Opens the next file, and adds its tensors.
  absl::Status OpenOne(const ManifestFile& file, std::vector<StateSection>* sections);

  const std::string folder_;
  Manifest manifest_;
  StatePlan plan_;
  std::vector<UniqueFd> files_;   // of the plan
  std::vector<uint64_t> hashes_;  // by part
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_CHECKPOINT_READER_H_
