#include "common/rpc/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <malloc.h>

#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/wire/chunk.h"

namespace gradwire {

namespace {

// Both sides send a keepalive ping after this time without data. Servers wait as long again for the
// answer; so do channels, except those to a coordinator.
constexpr int kKeepaliveMs = 5000;
// Until a new connection speaks HTTP/2.
constexpr int kHandshakeMs = 5000;
// For a connection without calls: those of a run always have one.
constexpr int kIdleMs = 30000;
// More than a run needs on one connection.
constexpr int kMostStreams = 128;
// Despite its name, this argument is how long one connection attempt may take.
constexpr int kConnectMs = 3000;
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);  // with all attempts
constexpr absl::Duration kConnectSlice = absl::Milliseconds(100);

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const Security& security,
                                           const std::string& name, absl::Duration silence) {
  KeepGrpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(silence)) - kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  if (security.encrypts() && !name.empty()) arguments.SetSslTargetNameOverride(name);
  return grpc::CreateCustomChannel(address, security.ForChannel(), arguments);
}

absl::Status WaitConnected(grpc::Channel* channel, absl::string_view peer,
                           const std::function<absl::Status()>& ended) {
  const absl::Time deadline = SteadyNow() + kConnectTimeout;
  while (!channel->WaitForConnected(ToGrpcDeadline(SteadyNow() + kConnectSlice))) {
    if (absl::Status status = ended(); !status.ok()) return status;
    if (SteadyNow() < deadline) continue;
    return absl::UnavailableError(
        absl::StrCat(peer, " does not answer within ", absl::FormatDuration(kConnectTimeout)));
  }
  return absl::OkStatus();
}

void ConfigureServer(grpc::ServerBuilder* builder) {
  KeepGrpc();
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Clients ping as often, which the default treats as abuse.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kKeepaliveMs / 5);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxMessageBytes);
}

void KeepFreedMemory(int most_heaps) {
  if (most_heaps > 0) mallopt(M_ARENA_MAX, most_heaps);
  constexpr int kHigh = std::numeric_limits<int>::max();
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, kHigh);
}

namespace {

// How often gRPC polls a connection if no thread waits in its calls, in milliseconds; its own value
// is 5000. After a cancelled call, memory lent to it returns only when the pending data of the
// connection was written or its end was noticed. Workers that continue after a loss wait for that.
constexpr char kBackupPollMs[] = "50";

}  // namespace

// gRPC is never shut down: when the last channel or server ends, it would wait for its backup
// poller, which may sleep up to 10 s (1.51). The end of the process stops it.
void KeepGrpc() {
  static const bool kept = [] {
    setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", kBackupPollMs, /*replace=*/0);
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

}  // namespace gradwire
