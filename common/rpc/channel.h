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

// A caller that wants an answer by D sets its call's deadline to D plus this,
// and the server answers by D: so that a late answer can say who is missing.
inline constexpr absl::Duration kAnswerMargin = absl::Seconds(1);

// How long a peer may be stopped, or a link be cut, before calls on a channel with it end: between
// workers, and of a coordinator, without which a run cannot go on.
inline constexpr absl::Duration kPeerSilence = absl::Seconds(10);
inline constexpr absl::Duration kCoordinatorSilence = absl::Seconds(35);

// A channel with what `security` asks for, and with a connection of its own (not shared with other
// channels to the same address), no proxy, no retries (they would cache what
// is sent), messages up to kMaxMessageBytes, and reconnects within 0.1 to 1 s.
// With TLS the peer's certificate has to be for `name`, if it is not empty, or else for the host of
// `address`. A peer that does not answer for `silence`, which is more than 5 s, ends calls. From
// the first channel or server on, gRPC stays up until the process ends.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Security& security = {},
                                           const std::string& name = "",
                                           absl::Duration silence = kPeerSilence);

// Waits until `channel` is connected, so that a first attempt that fails for a
// passing reason does not fail a call. Unavailable after 10 s: "`peer` does not
// answer within 10s"; or the error of `ended`, asked ten times a second.
absl::Status WaitConnected(grpc::Channel* channel, absl::string_view peer,
                           const std::function<absl::Status()>& ended);

// The same limits for a server; a port in use is refused, not shared.
void ConfigureServer(grpc::ServerBuilder* builder);

// Keeps freed memory in the process: glibc would give received slices back to
// the kernel and fault them in again, which costs more than all else on the
// data path. Call once, at the start of a program that moves gradients.
void KeepFreedMemory();

// Starts gRPC with our settings, which it reads but once, and keeps it until the process ends. To
// be called before anything of gRPC's is made; further calls do nothing.
void KeepGrpc();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CHANNEL_H_
