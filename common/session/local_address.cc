#include "common/session/local_address.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/status_util.h"

namespace gradwire {

namespace {

// A connected UDP socket knows the source address of its packets.
absl::StatusOr<std::string> SourceTowards(const addrinfo& target) {
  const UniqueFd fd(socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage local = {};
  socklen_t length = sizeof(local);
  if (fd.get() < 0 || connect(fd.get(), target.ai_addr, target.ai_addrlen) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) {
    return absl::UnavailableError(ErrorWords(errno));
  }
  return NumericAddress(reinterpret_cast<const sockaddr*>(&local)).host;
}

}  // namespace

absl::StatusOr<std::string> LocalAddressTowards(absl::string_view coordinator) {
  const absl::StatusOr<HostPort> address = ParseHostPort(coordinator);
  if (!address.ok()) return address.status();
  const std::string context = absl::StrCat("no route to coordinator ", coordinator);
  const absl::StatusOr<AddressList> targets = Resolve(*address, SOCK_DGRAM);
  if (!targets.ok()) return Annotate(targets.status(), context);
  absl::Status failure;
  for (const addrinfo* target = targets->get(); target != nullptr; target = target->ai_next) {
    absl::StatusOr<std::string> source = SourceTowards(*target);
    if (source.ok()) return source;
    failure = source.status();
  }
  return Annotate(failure, context);
}

absl::StatusOr<std::string> ListenAddressOf(const std::string& listen, const std::string& advertise,
                                            const std::string& coordinator) {
  if (!listen.empty()) return listen;
  if (!advertise.empty()) return ToString(HostPort{"0.0.0.0", 0});
  absl::StatusOr<std::string> local = LocalAddressTowards(coordinator);
  if (!local.ok()) return local.status();
  return ToString(HostPort{*std::move(local), 0});
}

absl::StatusOr<std::string> AdvertisedAddress(const std::string& advertise,
                                              const std::string& coordinator,
                                              const std::string& bound) {
  absl::StatusOr<HostPort> served = ParseHostPort(bound);
  if (!served.ok()) return served.status();
  std::string source = "--advertise";
  std::string host = advertise;
  if (host.empty()) {
    absl::StatusOr<std::string> local = LocalAddressTowards(coordinator);
    if (!local.ok()) return local.status();
    host = *std::move(local);
    source = absl::StrCat("the address of this host towards ", coordinator);
  }
  const std::string address = ToString(HostPort{host, served->port});
  spdlog::info("address of this process for others: {} ({})", address, source);
  return address;
}

}  // namespace gradwire
