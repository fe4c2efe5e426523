#ifndef GRADWIRE_COORDINATOR_CHECKPOINTS_STORED_STATE_H_
#define GRADWIRE_COORDINATOR_CHECKPOINTS_STORED_STATE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/state/checkpoint_reader.h"
#include "common/state_transfer/state_service.h"

namespace gradwire {

// Returns the messages for the sections of a plan, and the other way round. InvalidArgument if a
// type has no such name.
v1::StateCatalog CatalogOf(const StatePlan& plan);
absl::StatusOr<StateSection> SectionOf(const v1::StateSection& section);

// The state in a checkpoint, for the workers that resume from it. Reads its files part by part and
// keeps the last few parts, because workers read at about the same pace. Thread-safe.
class StoredState : public SharedState {
 public:
  explicit StoredState(std::unique_ptr<CheckpointReader> reader);

  const Manifest& manifest() const { return reader_->manifest(); }
  const v1::StateCatalog& catalog() const override { return catalog_; }
  absl::Status Read(const std::string& section, const std::string& key, uint64_t begin,
                    absl::Span<uint8_t> out) override;

 private:
  // Where some of a tensor's bytes are.
  struct Place {
    int part = 0;
    int64_t in_part = 0;  // the first of these bytes
    int64_t begin = 0;    // in the tensor
    int64_t bytes = 0;
  };
  using Part = std::shared_ptr<const std::vector<uint8_t>>;

  absl::StatusOr<Part> ReadPart(int part);

  const std::unique_ptr<CheckpointReader> reader_;
  const v1::StateCatalog catalog_;
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places_;
  Mutex mutex_;
  std::deque<std::pair<int, Part>> recent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_CHECKPOINTS_STORED_STATE_H_
