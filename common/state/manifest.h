#ifndef GRADWIRE_COMMON_STATE_MANIFEST_H_
#define GRADWIRE_COMMON_STATE_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"

namespace gradwire {

// The name of the file in a checkpoint's folder.
inline constexpr char kManifestName[] = "manifest.json";
// The format of the folder (docs/checkpoint-format.md).
inline constexpr int kCheckpointFormat = 1;

// A file of tensors as it was written.
struct ManifestFile {
  std::string name;
  std::string section;
  int64_t bytes = 0;            // of the whole file
  uint64_t header_hash = 0;     // XXH3 of the header
  std::vector<uint64_t> parts;  // XXH3 of each part of the values, in order
};

// The optimizer of torch, for an export.
struct ManifestOptimizer {
  struct Group {
    std::map<std::string, double> options;  // of torch's param_groups, such as "lr"
    std::vector<int64_t> parameters;        // places in parameters(); empty: all
  };

  std::string name;  // as --optimizer; empty: there is none
  std::vector<Group> groups;
};

// All that a checkpoint says of itself besides the tensors.
struct Manifest {
  std::string version;  // of the program that wrote it
  std::string run_id;   // hexadecimal
  int64_t step = 0;     // the first that was not computed: the state is the one before it
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;  // of the run, as it was configured when this was written
  uint64_t epoch = 0;       // of the coordinator
  int world_size = 0;
  int threads = 0;        // of torch, of each worker
  bool finished = false;  // the run reached its end with this step
  absl::Time time;        // when it was written; whole seconds
  // Each setting with its value as text. A resume with another one is refused.
  std::map<std::string, std::string> settings;
  // Facts that may change bits but need not, such as the BLAS. A difference is a warning.
  std::map<std::string, std::string> environment;
  ManifestOptimizer optimizer;
  std::map<std::string, uint64_t> digests;  // of each section (StatePlan::DigestOf)
  // The position of the record of this step in the ledger.
  struct Ledger {
    uint64_t number = 0;
    uint64_t chain = 0;
  };
  absl::optional<Ledger> ledger;
  int64_t part_bytes = 0;           // as StatePlan's
  int64_t file_bytes = 0;           // as StatePlan's
  std::vector<ManifestFile> files;  // in the order of the plan
};

// Returns the file's text. The same manifest has the same text. Bytes of texts that are no UTF-8
// become U+FFFD.
std::string WriteManifest(const Manifest& manifest);

// Reads such a text. InvalidArgument, with what was got and expected and, for another format, what
// to do: it is no JSON, has another format, lacks a field or has one more, a value has a wrong type
// or range, or its checksum does not fit. So each changed byte is found.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_MANIFEST_H_
