#ifndef GRADWIRE_ERROR_H_
#define GRADWIRE_ERROR_H_

#include <gradwire/export.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gradwire {

// What kind of thing went wrong, so that a program can tell what to do about it.
enum class ErrorCode {
  kInvalidArgument,     // a mistake of this program's: an option, a tensor, a model
  kFailedPrecondition,  // it is not the time for this: the group is closed, the run is full
  kUnavailable,         // the coordinator or a peer cannot be reached; try again later
  kDeadlineExceeded,    // others did not come or answer in time; the message names them
  kAborted,             // the run is over for all ranks; the message says why
  kDataLoss,            // what a peer sent is not what it made
  kInternal,            // none of these, such as a file that cannot be written
};

// "invalid argument", "aborted", …
GRADWIRE_EXPORT const char* ToString(ErrorCode code);

// The one exception of this library. After one from a collective with another code than
// kInvalidArgument, or any from DistributedDataParallel, the group cannot be used any more: each
// further call throws the same, and close() is all that is left. The other ranks hear of it
// within about a second.
class GRADWIRE_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, int rank, int64_t step, const std::string& message);
  ~Error() override;

  ErrorCode code() const noexcept { return code_; }
  // The rank of the process that throws; -1 if it has none yet.
  int rank() const noexcept { return rank_; }
  // The step of DistributedDataParallel in which it happened, from 0; -1 outside of one.
  int64_t step() const noexcept { return step_; }

 private:
  ErrorCode code_;
  int rank_;
  int64_t step_;
};

}  // namespace gradwire

#endif  // GRADWIRE_ERROR_H_
