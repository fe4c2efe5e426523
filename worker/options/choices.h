#ifndef GRADWIRE_WORKER_OPTIONS_CHOICES_H_
#define GRADWIRE_WORKER_OPTIONS_CHOICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/compress/compression.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// A name that an option takes, with one line of help.
struct NamedChoice {
  std::string name;
  std::string help;
};

// The lines of the tables (models.inc, datasets.inc, syncs.inc …),
// without what they make, so that no torch is needed to check an option.
std::vector<NamedChoice> ModelChoices();
std::vector<NamedChoice> DatasetChoices();
std::vector<NamedChoice> SyncChoices();
std::vector<NamedChoice> BackendChoices();
std::vector<NamedChoice> OptimizerChoices();
std::vector<NamedChoice> ScheduleChoices();
std::vector<NamedChoice> LossChoices();

// In place of a back end: the quickest that is exact in fp32. Its bits do not depend on which
// one that is: ring, or with separate aggregators sharded.
inline constexpr char kAutoBackend[] = "auto";
inline constexpr char kAutoOfWorkers[] = "ring";
inline constexpr char kAutoOfAggregators[] = "sharded";
// `backend`; or, in place of kAutoBackend, the one with aggregators if the run needs these: for
// several connections, or codecs.
std::string BackendFor(const std::string& backend, bool aggregates);
// The rows, and kAutoBackend.
std::vector<NamedChoice> BackendChoicesWithAuto();

std::vector<std::string> NamesOf(const std::vector<NamedChoice>& choices);

// `title` and below it a line for each choice, for --help.
std::string DescribeChoices(absl::string_view title, const std::vector<NamedChoice>& choices);

// What --compress and the optimiser's momentum ask for. InvalidArgument as ParseCompression.
absl::StatusOr<Compression> CompressionOf(const WorkerOptions& options);

// The type of gradients on the wire: the codec's, or that of --wire.
absl::StatusOr<v1::DType> WireTypeOf(const WorkerOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_CHOICES_H_
