#ifndef GRADWIRE_COMMON_STATE_STATE_PLAN_H_
#define GRADWIRE_COMMON_STATE_STATE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tensors/stored_tensor.h"

namespace gradwire {

// A named group of tensors of a run's state, such as "model". Names are lower-case letters.
struct StateSection {
  std::string name;
  std::vector<StoredTensor> tensors;  // keys differ
};

// The sections of a run's state, in this order.
//   model      parameters, by their names in torch, in the order of parameters()
//   optimizer  state of the optimizer: PARAMETER/NAME, such as "features.0.weight/momentum_buffer"
//   ranks      state of one rank: RANK/KIND/NAME, such as "0/buffers/features.1.running_mean"
//   outer      state of periodic syncs: KIND/NAME
//   codec      state of --compress that all workers have in common: KIND/NAME, "basis/conv1.weight"
//   residuals  accumulated errors of --compress: of one rank, RANK/KIND/NAME, such as
//              "3/error/conv1.weight"; of the mean, "mean/NAME/FIRST", a range of the tensor's
//              elements from number FIRST on
//   program    state of a rank of a program on the library: RANK/NAME, bytes
// Workers have different tensors of the last two, without digests.
inline constexpr char kModelSection[] = "model";
inline constexpr char kOptimizerSection[] = "optimizer";
inline constexpr char kRanksSection[] = "ranks";
inline constexpr char kOuterSection[] = "outer";
inline constexpr char kCodecSection[] = "codec";
inline constexpr char kResidualsSection[] = "residuals";
inline constexpr char kProgramSection[] = "program";

// Returns the bytes of all tensors together.
int64_t BytesOf(const StateSection& section);

// A file of the state: a safetensors header, then the values of some tensors of one section.
struct StateFile {
  std::string name;  // "model-00001-of-00002.safetensors"
  int section = 0;
  int first = 0;  // of the section's tensors
  int count = 0;
  std::string header;
  int64_t value_bytes = 0;
};

// A range of a file's values: the unit that is fetched, written, checked and read.
struct StatePart {
  int file = 0;
  int64_t begin = 0;  // in the file's values
  int64_t bytes = 0;  // kPartBytes, or fewer in a file's last part; never 0
};

// The bytes of one tensor within a part.
struct StateRange {
  int section = 0;
  int tensor = 0;     // of the section
  int64_t begin = 0;  // in the tensor's values
  int64_t bytes = 0;
};

// How the state of a run is cut into files and parts: a pure function of its sections, so all who
// know the sections know the numbers of the parts. Copyable; immutable.
class StatePlan {
 public:
  static constexpr int64_t kPartBytes = 4 << 20;
  // A file ends before the tensor that would make it larger, unless it is the file's first.
  static constexpr int64_t kFileBytes = int64_t{256} << 20;

  // InvalidArgument: a section's name or a key is empty, invalid or occurs twice, or a tensor has
  // no element, or bytes that overflow. Drops sections without tensors.
  static absl::StatusOr<StatePlan> Make(std::vector<StateSection> sections,
                                        int64_t part_bytes = kPartBytes,
                                        int64_t file_bytes = kFileBytes);

  StatePlan() = default;  // of no state

  const std::vector<StateSection>& sections() const { return sections_; }
  const std::vector<StateFile>& files() const { return files_; }
  const std::vector<StatePart>& parts() const { return parts_; }
  int64_t bytes() const { return bytes_; }  // of all values
  int64_t part_bytes() const { return part_bytes_; }
  int64_t file_bytes() const { return file_bytes_; }

  // Returns the section with that name, or -1.
  int FindSection(absl::string_view name) const;
  // Returns what part `part` consists of, in order.
  std::vector<StateRange> RangesOf(int part) const;

  // The beginning of a tensor's values: a part, and a byte of it. They go on in the next parts.
  struct Place {
    int part = 0;
    int64_t begin = 0;
  };
  Place PlaceOf(int section, int tensor) const;

  // Returns the digest of a section: XXH3 of its files' headers and parts' hashes. `hashes`: XXH3
  // of each part of the plan.
  uint64_t DigestOf(int section, absl::Span<const uint64_t> hashes) const;

 private:
  void AddFile(StateFile file);

  std::vector<StateSection> sections_;
  std::vector<StateFile> files_;
  std::vector<StatePart> parts_;
  int64_t bytes_ = 0;
  int64_t part_bytes_ = kPartBytes;
  int64_t file_bytes_ = kFileBytes;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_STATE_PLAN_H_
