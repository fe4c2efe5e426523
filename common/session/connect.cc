#include "common/session/connect.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "gradwire/v1/status.grpc.pb.h"

namespace gradwire {

namespace {

constexpr absl::Duration kAnswer = absl::Seconds(2);

UniqueFd NewSocket(const addrinfo& target) {
  return UniqueFd(socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Begins a connection. OK, Unavailable, or none if it is under way.
absl::optional<absl::Status> Begin(const UniqueFd& fd, const addrinfo& target) {
  const bool begun = fd.get() >= 0 && connect(fd.get(), target.ai_addr, target.ai_addrlen) == 0;
  if (begun) return absl::OkStatus();
  if (fd.get() >= 0 && errno == EINPROGRESS) return absl::nullopt;
  return absl::UnavailableError(ErrorWords(errno));
}

// Waits for the end of a connection's beginning. OK, Unavailable, or none after `patience`.
absl::optional<absl::Status> Await(const UniqueFd& fd, absl::Duration patience) {
  pollfd waiting = {fd.get(), POLLOUT, 0};
  const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(patience));
  if (poll(&waiting, 1, milliseconds) <= 0) return absl::nullopt;
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(ErrorWords(error));
}

bool Answers(const addrinfo& target) {
  const UniqueFd socket = NewSocket(target);
  absl::optional<absl::Status> connected = Begin(socket, target);
  if (!connected.has_value()) connected = Await(socket, kAnswer);
  return connected.has_value() && connected->ok();
}

// Only an address of this host can be bound; the system selects the port.
bool IsOfThisHost(const HostPort& numeric) {
  const absl::StatusOr<AddressList> any_port = Resolve({numeric.host, 0}, SOCK_STREAM);
  if (!any_port.ok()) return false;
  const UniqueFd socket = NewSocket(**any_port);
  return bind(socket.get(), (*any_port)->ai_addr, (*any_port)->ai_addrlen) == 0;
}

}  // namespace

absl::StatusOr<AddressUse> Probe(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return parsed.status();
  const absl::StatusOr<AddressList> targets = Resolve(*parsed, SOCK_STREAM);
  if (!targets.ok()) return AddressUse::kElsewhere;
  AddressUse use = AddressUse::kElsewhere;
  for (const addrinfo* target = targets->get(); target != nullptr; target = target->ai_next) {
    if (Answers(*target)) return AddressUse::kServed;
    if (IsOfThisHost(NumericAddress(target->ai_addr))) use = AddressUse::kFree;
  }
  return use;
}

namespace {

constexpr absl::Duration kFirstWait = absl::Milliseconds(100);
constexpr absl::Duration kLongestWait = absl::Seconds(2);
constexpr absl::Duration kAttempt = absl::Seconds(3);       // for one address to answer
constexpr absl::Duration kSlice = absl::Milliseconds(100);  // interval of the checks of `cancelled`

// One call of ConnectToCoordinator.
class Connector {
 public:
  Connector(std::string name, HostPort address, absl::Duration timeout,
            const std::function<bool()>& cancelled, const Security& security)
      : name_(std::move(name)),
        address_(std::move(address)),
        timeout_(timeout),
        deadline_(SteadyNow() + timeout),
        cancelled_(cancelled),
        security_(security) {}

  absl::StatusOr<std::shared_ptr<grpc::Channel>> Run();

 private:
  // One attempt over all addresses of the name.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Attempt();
  // OK if a TCP connection can be made. Its error says more than gRPC's.
  absl::Status Knock(const addrinfo& target) const;
  absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const HostPort& numeric) const;
  absl::Status WhyNot(const std::shared_ptr<grpc::Channel>& channel) const;
  absl::Time AttemptDeadline() const { return std::min(deadline_, SteadyNow() + kAttempt); }
  void LogWait(const absl::Status& failure, int attempt, absl::Duration wait) const;
  void Sleep(absl::Duration wait) const;

  const std::string name_;
  const HostPort address_;
  const absl::Duration timeout_;
  const absl::Time deadline_;
  const std::function<bool()>& cancelled_;
  const Security& security_;
};

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connector::Run() {
  absl::Duration wait = kFirstWait;
  for (int attempt = 1;; ++attempt) {
    if (cancelled_()) return absl::CancelledError("cancelled while connecting");
    auto channel = Attempt();
    if (channel.ok() || absl::IsCancelled(channel.status())) return channel;
    const absl::Duration left = deadline_ - SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          absl::StrFormat("coordinator %s did not answer within %g s (%s; %d attempts)", name_,
                          absl::ToDoubleSeconds(timeout_), channel.status().message(), attempt));
    }
    wait = std::min(wait, left);
    LogWait(channel.status(), attempt, wait);
    Sleep(wait);
    wait = std::min(wait * 2, kLongestWait);
  }
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connector::Attempt() {
  const absl::StatusOr<AddressList> targets = Resolve(address_, SOCK_STREAM);
  if (!targets.ok()) return targets.status();
  absl::Status failure;
  for (const addrinfo* target = targets->get(); target != nullptr; target = target->ai_next) {
    failure = Knock(*target);
    if (failure.ok()) return OpenChannel(NumericAddress(target->ai_addr));
    if (absl::IsCancelled(failure)) break;
  }
  return failure;
}

absl::Status Connector::Knock(const addrinfo& target) const {
  const UniqueFd socket = NewSocket(target);
  const absl::Time deadline = AttemptDeadline();
  absl::optional<absl::Status> connected = Begin(socket, target);
  while (!connected.has_value()) {
    connected = Await(socket, kSlice);
    if (connected.has_value()) break;
    if (cancelled_()) return absl::CancelledError("cancelled while connecting");
    if (SteadyNow() >= deadline) return absl::UnavailableError(ErrorWords(ETIMEDOUT));
  }
  return *std::move(connected);
}

absl::Status Connector::WhyNot(const std::shared_ptr<grpc::Channel>& channel) const {
  if (!security_.encrypts())
    return absl::UnavailableError("it does not speak gRPC, or requires TLS");
  // Only a call reports the error of the last attempt.
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(SteadyNow() + kAttempt));
  v1::StatusReply reply;
  const grpc::Status status = v1::Status::NewStub(channel)->Get(&context, {}, &reply);
  return absl::UnavailableError(absl::StrCat("no TLS connection: ", status.error_message()));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connector::OpenChannel(
    const HostPort& numeric) const {
  std::shared_ptr<grpc::Channel> channel =
      MakeChannel(ToString(numeric), security_, address_.host, kCoordinatorSilence);
  const absl::Time deadline = AttemptDeadline();
  while (!channel->WaitForConnected(ToGrpcDeadline(SteadyNow() + kSlice))) {
    if (cancelled_()) return absl::CancelledError("cancelled while connecting");
    if (SteadyNow() >= deadline) return WhyNot(channel);
  }
  return channel;
}

void Connector::LogWait(const absl::Status& failure, int attempt, absl::Duration wait) const {
  spdlog::warn(
      "coordinator {} does not answer ({}); attempt {}, next in {:.1f} s, giving up in "
      "{:.0f} s",
      name_, std::string(failure.message()), attempt, absl::ToDoubleSeconds(wait),
      absl::ToDoubleSeconds(deadline_ - SteadyNow()));
}

void Connector::Sleep(absl::Duration wait) const {
  const absl::Time end = SteadyNow() + wait;
  for (absl::Time now = SteadyNow(); now < end && !cancelled_(); now = SteadyNow()) {
    absl::SleepFor(std::min(kSlice, end - now));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToCoordinator(
    const std::string& address, absl::Duration timeout, const std::function<bool()>& cancelled,
    const Security& security) {
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return parsed.status();
  return Connector(address, *std::move(parsed), timeout, cancelled, security).Run();
}

}  // namespace gradwire
