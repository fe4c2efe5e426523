#include "coordinator/run/hosted_coordinator.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/session/connect.h"
#include "coordinator/run/coordinator_options.h"

namespace gradwire {
namespace {

constexpr char kUsualMetrics[] = "127.0.0.1:9400";
constexpr char kAnyMetrics[] = "127.0.0.1:0";

// Options that a hosted coordinator reads from the environment; the other variables are the
// worker's.
constexpr const char* kOwnOptions[] = {"aggregators",
                                       "checkpoint-every",
                                       "chunk-kib",
                                       "http-names",
                                       "http-token",
                                       "keep-checkpoints",
                                       "lease-seconds",
                                       "linger-seconds",
                                       "min-lease-seconds",
                                       "min-workers",
                                       "on-loss",
                                       "pause-timeout",
                                       "port-file",
                                       "resume",
                                       "run-dir",
                                       "workers",
                                       "rendezvous-timeout-seconds"};

bool IsNumeric(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Returns an address to listen on that all hosts reach by the host's name.
std::string ListenAddressFor(const HostPort& address) {
  const bool exact = IsNumeric(address.host) || IsLoopback(address.host);
  return ToString(HostPort{exact ? address.host : "0.0.0.0", address.port});
}

absl::StatusOr<CoordinatorOptions> OptionsOf(const HostedCoordinator::Options& options,
                                             const HostPort& address,
                                             const Environment& environment) {
  Environment own;
  for (const char* name : kOwnOptions) {
    own[VariableOf(name)] = Value(environment, VariableOf(name));
  }
  // A launcher of equal processes ends them all when one is lost, and rank 0 cannot be lost at all.
  if (own[VariableOf("on-loss")].empty()) own[VariableOf("on-loss")] = kStop;
  own[VariableOf("world-size")] = absl::StrCat(options.world_size);
  own[VariableOf("token-file")] = options.security.token_file;
  own[VariableOf("listen")] = ListenAddressFor(address);
  own[VariableOf("insecure")] = MayBePublic(options.security) ? "true" : "false";
  absl::StatusOr<Parsed<CoordinatorOptions>> parsed = ParseCoordinatorOptions({}, own);
  if (!parsed.ok()) return parsed.status();
  parsed->options.security = options.security;
  parsed->options.log_prefix = "[coordinator] ";
  parsed->options.metrics = options.metrics.empty() ? kUsualMetrics : options.metrics;
  if (absl::Status serving = CheckServing(parsed->options); !serving.ok()) return serving;
  return parsed->options;
}

// Serves pages on another port if another run uses the default one.
absl::StatusOr<std::unique_ptr<Coordinator>> StartAt(CoordinatorOptions options,
                                                     bool may_move_metrics) {
  auto coordinator = Coordinator::Start(options);
  if (!absl::IsFailedPrecondition(coordinator.status()) || !may_move_metrics) return coordinator;
  options.metrics = kAnyMetrics;
  return Coordinator::Start(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostedCoordinator>> HostedCoordinator::StartUnlessServed(
    const Options& options, const Environment& environment) {
  absl::StatusOr<HostPort> address = ParseHostPort(options.address);
  if (!address.ok()) return address.status();
  if (address->port != 0) {
    const absl::StatusOr<AddressUse> use = Probe(options.address);
    if (!use.ok()) return use.status();
    if (*use != AddressUse::kFree) return nullptr;
  }
  const absl::StatusOr<CoordinatorOptions> own = OptionsOf(options, *address, environment);
  if (!own.ok()) return own.status();
  auto coordinator = StartAt(*own, options.metrics.empty());
  if (!coordinator.ok()) {
    // Another process may have been faster.
    const absl::StatusOr<AddressUse> use = Probe(options.address);
    if (use.ok() && *use == AddressUse::kServed) return nullptr;
    return coordinator.status();
  }
  address->port = ParseHostPort((*coordinator)->address())->port;
  return absl::WrapUnique(new HostedCoordinator(ToString(*address), *std::move(coordinator)));
}

HostedCoordinator::HostedCoordinator(std::string address, std::unique_ptr<Coordinator> coordinator)
    : address_(std::move(address)), coordinator_(std::move(coordinator)) {}

HostedCoordinator::~HostedCoordinator() {
  coordinator_->Stop("the process that hosts the coordinator ended");
}

void HostedCoordinator::AwaitEnd() {
  coordinator_->Wait().IgnoreError();  // the worker's session has the same status
  coordinator_->Linger();
  coordinator_->WaitForViewer();
}

}  // namespace gradwire
