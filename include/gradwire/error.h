#ifndef GRADWIRE_ERROR_H_
#define GRADWIRE_ERROR_H_

#include <gradwire/export.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gradwire {

// Kinds of errors, so that a program can decide what to do.
enum class ErrorCode {
  kInvalidArgument,     // a mistake in this program: an option, a tensor, a model
  kFailedPrecondition,  // not possible now: the group is closed, the run is full
  kUnavailable,         // the coordinator or a peer cannot be reached; try again later
  kDeadlineExceeded,    // other ranks did not join or answer in time; the message names them
  kAborted,             // the run is over for all ranks; the message says why
  kDataLoss,            // data of a peer arrived damaged
  kInternal,            // any other error, such as a file that cannot be written
};

// "invalid argument", "aborted", …
GRADWIRE_EXPORT const char* ToString(ErrorCode code);

// The only exception of this library. After an Error from a collective with a code other than
// kInvalidArgument, or from DistributedDataParallel, the group is unusable: each further call
// throws the same Error, and only close() remains. The other ranks learn of the error within about
// a second. The run goes on after an Error of JoinOptions::throw_on_early_termination, and if
// attach, resume or end_step is called in the wrong order, attach gets an unsuitable argument,
// resume finds several models in the group, or end_step a new parameter group.
class GRADWIRE_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, int rank, int64_t step, const std::string& message);
  ~Error() override;

  ErrorCode code() const noexcept { return code_; }
  // Returns the rank of the process that throws; -1 if it has none yet.
  int rank() const noexcept { return rank_; }
  // Returns the step of DistributedDataParallel in which the error happened, from 0; -1 outside of
  // a step.
  int64_t step() const noexcept { return step_; }

 private:
  ErrorCode code_;
  int rank_;
  int64_t step_;
};

}  // namespace gradwire

#endif  // GRADWIRE_ERROR_H_
