#include "common/rpc/reach.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"

namespace gradwire {
namespace {

// IPv6; an IPv4 address is ::ffff:a.b.c.d.
using AddressBytes = std::array<uint8_t, sizeof(in6_addr)>;

constexpr int kBitsBeforeIpv4 = 96;

struct Network {
  const char* address;
  int bits;  // length of the common prefix
};

constexpr Network kPrivateNetworks[] = {
    {"127.0.0.0", 8},    {"10.0.0.0", 8},    {"172.16.0.0", 12}, {"192.168.0.0", 16},
    {"169.254.0.0", 16}, {"100.64.0.0", 10}, {"192.0.2.0", 24},  {"198.51.100.0", 24},
    {"203.0.113.0", 24}, {"::1", 128},       {"fc00::", 7},      {"fe80::", 10},
    {"2001:db8::", 32},
};

bool IsIpv4(const AddressBytes& bytes) {
  const auto is_zero = [](uint8_t byte) { return byte == 0; };
  return std::all_of(bytes.begin(), bytes.begin() + 10, is_zero) && bytes[10] == 0xff &&
         bytes[11] == 0xff;
}

// Returns none if it is not a numeric address.
absl::optional<AddressBytes> BytesOf(absl::string_view numeric) {
  const std::string text(numeric.substr(0, numeric.find('%')));  // without the zone
  AddressBytes bytes = {};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  if (inet_pton(AF_INET, text.c_str(), bytes.data() + kBitsBeforeIpv4 / 8) != 1) {
    return absl::nullopt;
  }
  bytes[10] = bytes[11] = 0xff;
  return bytes;
}

bool IsIn(const Network& network, const AddressBytes& bytes) {
  const AddressBytes first = *BytesOf(network.address);
  const int bits = network.bits + (IsIpv4(first) ? kBitsBeforeIpv4 : 0);
  for (int bit = 0; bit < bits; ++bit) {
    const int mask = 0x80 >> bit % 8;
    if ((bytes[bit / 8] & mask) != (first[bit / 8] & mask)) return false;
  }
  return true;
}

// Returns none if the name is unknown: then no server can listen there.
std::vector<std::string> AddressesOfName(const std::string& host) {
  const absl::StatusOr<AddressList> found = Resolve({host, 0}, SOCK_STREAM);
  return found.ok() ? NumericHosts(found->get()) : std::vector<std::string>();
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

bool IsPrivateAddress(absl::string_view numeric) {
  const absl::optional<AddressBytes> bytes = BytesOf(numeric);
  return bytes.has_value() &&
         std::any_of(std::begin(kPrivateNetworks), std::end(kPrivateNetworks),
                     [&bytes](const Network& network) { return IsIn(network, *bytes); });
}

std::vector<std::string> OwnAddresses() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, &freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    std::string text = NumericAddress(each->ifa_addr).host;
    if (!text.empty()) addresses.push_back(std::move(text));
  }
  return addresses;
}

absl::optional<std::string> PublicAddressOf(const std::string& host,
                                            const std::vector<std::string>& own) {
  for (const std::string& address : IsWildcard(host) ? own : AddressesOfName(host)) {
    if (BytesOf(address).has_value() && !IsPrivateAddress(address)) return address;
  }
  return absl::nullopt;
}

absl::Status CheckReach(absl::string_view option, absl::string_view listen,
                        const std::vector<std::string>& own) {
  if (listen.empty() || listen == "off") return absl::OkStatus();
  const absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return address.status();
  const absl::optional<std::string> reached = PublicAddressOf(address->host, own);
  if (!reached.has_value()) return absl::OkStatus();
  const std::string where =
      *reached == address->host ? "" : absl::StrCat(", which is ", *reached, " too");
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": got ", listen, where, ": any host could reach that address, and calls are ",
      "not encrypted; expected TLS (--tls-cert, --tls-key, --tls-ca), an address of a ",
      "private network, or --insecure"));
}

absl::Status CheckReach(absl::string_view option, absl::string_view listen,
                        const SecurityOptions& security) {
  return MayBePublic(security) ? absl::OkStatus() : CheckReach(option, listen);
}

}  // namespace gradwire
