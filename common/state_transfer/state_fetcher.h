#ifndef GRADWIRE_COMMON_STATE_TRANSFER_STATE_FETCHER_H_
#define GRADWIRE_COMMON_STATE_TRANSFER_STATE_FETCHER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gradwire/v1/state.grpc.pb.h"

namespace gradwire {

// A range of a tensor's values, and the place for its bytes.
struct WantedRange {
  std::string section;
  std::string key;
  uint64_t begin = 0;
  absl::Span<uint8_t> out;
};

// Longest time of a call, for 4 MiB: enough at 0.6 Mbit/s, and for a worker that computes.
inline constexpr absl::Duration kStateTimeout = absl::Seconds(60);

// Fetches a state from one process that has it. Not thread-safe.
class StateFetcher {
 public:
  // `who` names the other side in errors, such as "coordinator 10.0.0.1:29400". Each call may take
  // as long as `timeout`. If `ended` is set, a call first waits for a connection, as WaitConnected
  // does: then no call fails because of one attempt to connect.
  StateFetcher(std::shared_ptr<grpc::Channel> channel, std::string who, v1::StateId id,
               absl::Duration timeout, std::function<absl::Status()> ended = nullptr);

  // Returns the tensors of the state. Errors: those of State.Describe; Unavailable or
  // DeadlineExceeded if the other side does not answer.
  absl::StatusOr<v1::StateCatalog> Describe();

  // Fills the ranges. Errors: those of State.Fetch; Unavailable or DeadlineExceeded as above;
  // DataLoss if bytes were damaged on their way. The places then have any values.
  absl::Status Fetch(const std::vector<WantedRange>& ranges);

  // Fills `out` with the first bytes of a tensor, in calls of at most 4 MiB, so that no call takes
  // long on a slow network. Errors as of Fetch.
  absl::Status FetchTensor(const std::string& section, const std::string& key,
                           absl::Span<uint8_t> out);

 private:
  absl::Status Explain(const absl::Status& status) const;
  absl::Status AwaitConnection() const;

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::State::Stub> stub_;
  const std::string who_;
  const v1::StateId id_;
  const absl::Duration timeout_;
  const std::function<absl::Status()> ended_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_TRANSFER_STATE_FETCHER_H_
