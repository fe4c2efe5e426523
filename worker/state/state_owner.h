#ifndef GRADWIRE_WORKER_STATE_STATE_OWNER_H_
#define GRADWIRE_WORKER_STATE_STATE_OWNER_H_

#include <vector>

#include "absl/status/status.h"
#include "worker/state/state_copy.h"
#include "worker/state/state_reader.h"

namespace gradwire {

// A trainer or a program whose state is kept in checkpoints. The thread that trains calls.
class StateOwner {
 public:
  virtual ~StateOwner() = default;

  // Whether the state can be copied now, between two steps.
  virtual bool IsAtBorder() const = 0;
  // Copies the state between two steps, when no update and no exchange is under way.
  virtual std::vector<StateTensorRef> Copy() = 0;
  // Before the first step, once: restores what all workers have in common. Errors: those of
  // StateReader::Get.
  virtual absl::Status RestoreCommon(const StateReader& reader) = 0;
  // After that, for each set of carried ranks before the first step: restores what they have for
  // themselves, and what the exchange keeps. Errors: those of StateReader::Get.
  virtual absl::Status RestoreOwn(const StateReader& reader) = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_STATE_OWNER_H_
