#ifndef GRADWIRE_WORKER_OPTIONS_CHOICES_H_
#define GRADWIRE_WORKER_OPTIONS_CHOICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/compress/compression.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// A value of an option, with one line of help.
struct NamedChoice {
  std::string name;
  std::string help;
};

// The rows of the tables (models.inc, datasets.inc, syncs.inc …), without their factories, so that
// options can be checked without torch.
std::vector<NamedChoice> ModelChoices();
std::vector<NamedChoice> DatasetChoices();
std::vector<NamedChoice> SyncChoices();
std::vector<NamedChoice> BackendChoices();
std::vector<NamedChoice> OptimizerChoices();
std::vector<NamedChoice> ScheduleChoices();
std::vector<NamedChoice> LossChoices();

// Stands for the fastest back end that is exact in fp32: sharded if there are separate aggregators,
// else memory if all workers share it; else coordinator for a sync that gathers, sharded for a
// codec, and ring for all others. All give the same bits in fp32; memory gives those of the back
// end that replaces it between hosts, in every type.
inline constexpr char kAutoBackend[] = "auto";
inline constexpr char kAutoOfHost[] = "memory";
inline constexpr char kAutoOfWorkers[] = "ring";
inline constexpr char kAutoOfAggregators[] = "sharded";
inline constexpr char kAutoOfGathering[] = "coordinator";
// Returns the back end for kAutoBackend between hosts.
std::string AutoBetweenHosts(bool gathers, bool aggregates);
// Returns `backend`. If it is kAutoBackend and the user asked for several connections, returns the
// back end that has them.
std::string BackendFor(const std::string& backend, int connections, bool gathers);
// Values of --shared-memory: auto, off.
std::vector<std::string> SharedMemoryChoices();
// Returns whether this worker offers its memory to others of its host.
bool SharesMemory(const std::string& shared_memory);
// The rows and kAutoBackend.
std::vector<NamedChoice> BackendChoicesWithAuto();

std::vector<std::string> NamesOf(const std::vector<NamedChoice>& choices);

// Returns `title` and one line for each choice, for --help.
std::string DescribeChoices(absl::string_view title, const std::vector<NamedChoice>& choices);

// Combines --compress with the optimizer's momentum. Errors: those of ParseCompression.
absl::StatusOr<Compression> CompressionOf(const WorkerOptions& options);

// Returns the type of gradients on the wire: the codec's, or --wire.
absl::StatusOr<v1::DType> WireTypeOf(const WorkerOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_CHOICES_H_
