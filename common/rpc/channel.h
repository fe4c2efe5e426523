#ifndef GRADWIRE_COMMON_RPC_CHANNEL_H_
#define GRADWIRE_COMMON_RPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/security.h"

namespace gradwire {

// A caller that needs an answer by D sets its call's deadline to D plus this, and the server
// answers by D, so that a late answer can still name the missing ranks.
inline constexpr absl::Duration kAnswerMargin = absl::Seconds(1);

// How long a peer may be stopped, or a link be cut, before calls on a channel to it end: between
// workers, and to a coordinator whose loss ends the run.
inline constexpr absl::Duration kPeerSilence = absl::Seconds(10);
inline constexpr absl::Duration kCoordinatorSilence = absl::Seconds(35);

// Creates a channel with the credentials of `security`. It has its own connection (not shared with
// other channels to the same address), no proxy, no retries (they would cache the sent data),
// messages up to kMaxMessageBytes, and reconnects within 0.1 to 1 s. With TLS the peer's
// certificate must be for `name` or, if that is empty, for the host of `address`. If a peer does
// not answer for `silence`, which must be more than 5 s, calls end. After the first channel or
// server, gRPC stays loaded until the process ends.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Security& security = {},
                                           const std::string& name = "",
                                           absl::Duration silence = kPeerSilence);

// Waits until `channel` is connected, so that a failure of the first attempt for a temporary reason
// does not fail a call. Unavailable after 10 s: "`peer` does not answer within 10s"; or the error
// of `ended`, which is called ten times a second.
absl::Status WaitConnected(grpc::Channel* channel, absl::string_view peer,
                           const std::function<absl::Status()>& ended);

// Sets the same limits for a server; a port in use is an error, not shared.
void ConfigureServer(grpc::ServerBuilder* builder);

// Keeps freed memory in the process: glibc would return received slices to the kernel and fault
// them in again, which costs more than the rest of the data path. Call once, at the start of a
// program that moves gradients. Each heap of glibc keeps what it had at its peak: `most_heaps`
// above 0 limits their number. With more than one, glibc gives threads heaps that it returns to the
// kernel when they are empty, and no block above 64 MB comes from them, so a program whose threads
// compute wants 1.
void KeepFreedMemory(int most_heaps = 0);

// Starts gRPC with our settings, which it reads only once, and keeps it until the process ends.
// Must be called before any gRPC object is created; further calls do nothing.
void KeepGrpc();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CHANNEL_H_
