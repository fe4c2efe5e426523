#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/ascii.h"
#include "common/base/address.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::gradwire::testing::BusyPort;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

UniqueFd ConnectTo(const HostPort& address) {
  const absl::StatusOr<AddressList> targets = Resolve(address, SOCK_STREAM);
  UniqueFd socket_to(socket((*targets)->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket_to.get(), (*targets)->ai_addr, (*targets)->ai_addrlen), 0);
  return socket_to;
}

Accepted AcceptSoon(const Listening& listening, UniqueFd* connection) {
  pollfd waited = {listening.sockets[0].get(), POLLIN, 0};
  EXPECT_EQ(poll(&waited, 1, 10000), 1);
  return Accept(listening.sockets[0], connection);
}

bool IsBlocking(const UniqueFd& socket) { return (fcntl(socket.get(), F_GETFL) & O_NONBLOCK) == 0; }

TEST(ListenAt, PortZero_TellsTheOneThatWasBound) {
  const absl::StatusOr<Listening> listening = ListenAt({"127.0.0.1", 0});
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_EQ(listening->address.host, "127.0.0.1");
  EXPECT_GT(listening->address.port, 0);
  ASSERT_EQ(listening->sockets.size(), 1);
  EXPECT_FALSE(IsBlocking(listening->sockets[0]));
}

TEST(ListenAt, AllAddresses_KeepsTheHostThatWasAskedFor) {
  for (const char* host : {"0.0.0.0", "::"}) {
    const absl::StatusOr<Listening> listening = ListenAt({host, 0});
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_EQ(listening->address.host, host);
    UniqueFd connection;
    const UniqueFd peer = ConnectTo({"127.0.0.1", listening->address.port});
    EXPECT_EQ(AcceptSoon(*listening, &connection), Accepted::kConnection) << host;
  }
}

// A name with two addresses; `second` outlives the result.
AddressList TwoAddresses(const AddressList& second) {
  AddressList first = Resolve({"127.0.0.1", 0}, SOCK_STREAM).value();
  first->ai_next = second.get();
  return AddressList(first.release(), [](addrinfo* list) noexcept {
    list->ai_next = nullptr;
    freeaddrinfo(list);
  });
}

TEST(ListenAtEach, TwoAddressesAndPortZero_OnePortForBoth) {
  const AddressList second = Resolve({"127.0.0.2", 0}, SOCK_STREAM).value();
  const AddressList both = TwoAddresses(second);
  const absl::StatusOr<Listening> listening = ListenAtEach(both.get(), {"two", 0});
  ASSERT_TRUE(listening.ok()) << listening.status();
  ASSERT_EQ(listening->sockets.size(), 2);
  EXPECT_EQ(listening->address.host, "two");
  UniqueFd connection;
  const UniqueFd peer = ConnectTo({"127.0.0.2", listening->address.port});
  EXPECT_EQ(Accept(listening->sockets[1], &connection), Accepted::kConnection);
  const UniqueFd other = ConnectTo({"127.0.0.1", listening->address.port});
  EXPECT_EQ(AcceptSoon(*listening, &connection), Accepted::kConnection);
}

TEST(NumericHosts, TwoAddresses_BothInOrder) {
  const AddressList second = Resolve({"127.0.0.2", 0}, SOCK_STREAM).value();
  EXPECT_THAT(NumericHosts(TwoAddresses(second).get()), ElementsAre("127.0.0.1", "127.0.0.2"));
}

TEST(ListenAt, PortInUse_FailedPreconditionSaysSo) {
  const BusyPort busy;
  const absl::StatusOr<HostPort> address = ParseHostPort(busy.address());
  for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
    const absl::Status status = ListenAt({host, address->port}).status();
    EXPECT_EQ(status, absl::FailedPreconditionError("address already in use")) << host;
  }
}

TEST(ListenAt, PortOfAnotherServerOfOurs_IsNotShared) {
  const absl::StatusOr<Listening> first = ListenAt({"127.0.0.1", 0});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ListenAt(first->address).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ListenAt, AddressOfAnother_FailedPreconditionSaysWhy) {
  // RFC 5737: nobody's.
  EXPECT_THAT(std::string(ListenAt({"192.0.2.1", 0}).status().message()),
              HasSubstr("cannot assign requested address"));
  EXPECT_EQ(ListenAt({"no such host", 0}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Accept, NobodyThere_DoesNotWait) {
  const absl::StatusOr<Listening> listening = ListenAt({"127.0.0.1", 0});
  UniqueFd connection;
  EXPECT_EQ(Accept(listening->sockets[0], &connection), Accepted::kNobody);
  EXPECT_EQ(connection.get(), -1);
}

TEST(Accept, Connection_IsNonBlockingAndWithoutDelay) {
  const absl::StatusOr<Listening> listening = ListenAt({"127.0.0.1", 0});
  const UniqueFd peer = ConnectTo(listening->address);
  UniqueFd connection;
  ASSERT_EQ(AcceptSoon(*listening, &connection), Accepted::kConnection);
  EXPECT_FALSE(IsBlocking(connection));
  int on = 0;
  socklen_t length = sizeof(on);
  getsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, &length);
  EXPECT_NE(on, 0);
}

TEST(NumericAddress, Ipv4AndIpv6_AreHostAndPort) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const absl::StatusOr<AddressList> found = Resolve({host, 4711}, SOCK_STREAM);
    ASSERT_TRUE(found.ok()) << found.status();
    const HostPort address = NumericAddress((*found)->ai_addr);
    EXPECT_EQ(address.host, host);
    EXPECT_EQ(address.port, 4711);
  }
}

TEST(NumericAddress, OtherFamily_IsNone) {
  sockaddr other = {};
  other.sa_family = AF_UNIX;
  const HostPort address = NumericAddress(&other);
  EXPECT_EQ(address.host, "");
  EXPECT_EQ(address.port, 0);
}

TEST(Resolve, NameThatNobodyHas_UnavailableInPlainWords) {
  const absl::Status status = Resolve({"no such host", 1}, SOCK_STREAM).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), absl::AsciiStrToLower(status.message()));
}

}  // namespace
}  // namespace gradwire
