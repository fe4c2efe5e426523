#include "common/rpc/caller.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "common/base/address.h"
#include "common/base/plain_text.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr char kIncarnationKey[] = "gradwire-incarnation";
constexpr size_t kMostOfCaller = 200;  // characters of its text in a message

// Returns none if the caller sends no valid id.
absl::optional<Incarnation> Said(const grpc::ServerContext& context) {
  const auto said = context.client_metadata().find(kIncarnationKey);
  if (said == context.client_metadata().end()) return absl::nullopt;
  uint64_t incarnation;
  if (!absl::SimpleAtoi(absl::string_view(said->second.data(), said->second.size()),
                        &incarnation)) {
    return absl::nullopt;
  }
  return Incarnation(incarnation);
}

}  // namespace

void SayWho(Incarnation self, grpc::ClientContext* context) {
  context->AddMetadata(kIncarnationKey, absl::StrCat(self.value()));
}

bool SaysWho(const grpc::ServerContext& context) {
  return context.client_metadata().count(kIncarnationKey) > 0;
}

bool IsMember(const grpc::ServerContext& context, const View& view) {
  const absl::optional<Incarnation> said = Said(context);
  return std::any_of(view.members.begin(), view.members.end(), [&said](const Member& member) {
    return said.has_value() && member.incarnation == *said;
  });
}

bool IsNameOf(absl::string_view name, absl::string_view host) {
  if (absl::EqualsIgnoreCase(name, host)) return true;
  const size_t dot = host.find('.');
  return absl::ConsumePrefix(&name, "*") && absl::StartsWith(name, ".") && dot != host.npos &&
         dot > 0 && absl::EqualsIgnoreCase(name, host.substr(dot));
}

absl::Status CheckHost(const grpc::ServerContext& context, absl::string_view address) {
  const auto certificate = context.auth_context();
  // A certificate without names has no identity for gRPC, but it is one.
  const auto types = certificate->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  const bool is_tls = std::any_of(types.begin(), types.end(), [](const grpc::string_ref& type) {
    return type == GRPC_TLS_TRANSPORT_SECURITY_TYPE || type == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
  });
  if (!is_tls) return absl::OkStatus();
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return absl::OkStatus();  // refused for that reason elsewhere
  std::vector<std::string> names;
  for (const grpc::string_ref& name :
       certificate->FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME)) {
    names.emplace_back(name.data(), name.size());
    if (IsNameOf(names.back(), parsed->host)) return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("got ", WithoutControls(Shortened(address, kMostOfCaller)),
                   ", but the caller's certificate is for ",
                   WithoutControls(Shortened(absl::StrJoin(names, ", "), kMostOfCaller)),
                   "; expected an address in that certificate (--advertise)"));
}

absl::Status CheckReader(const grpc::ServerContext& context, const View& view, Incarnation reader) {
  for (const Member& member : view.members) {
    if (member.incarnation != reader) continue;
    const absl::optional<Incarnation> said = Said(context);
    if (said != reader) {
      return absl::PermissionDeniedError(
          "Scatter: got the incarnation of another worker, expected the caller's own");
    }
    return CheckHost(context, member.address);
  }
  return absl::OkStatus();
}

absl::Status Authority::Check(const View& view, Generation generation, Rank rank) {
  if (generation != view.generation || rank < Rank(0) || rank >= Rank(view.world_size)) {
    return absl::OkStatus();
  }
  if (generation_ != generation) ranks_.clear();
  generation_ = generation;
  if (ranks_.count(rank) > 0) return absl::OkStatus();
  const Member& carrier = view.Carrier(rank);
  const absl::optional<Incarnation> said = Said(context_);
  if (said.has_value() && *said != carrier.incarnation) {
    return absl::PermissionDeniedError(
        absl::StrCat("got a chunk of rank ", rank.value(), ", which the caller does not carry"));
  }
  absl::Status host = CheckHost(context_, carrier.address);
  if (!host.ok()) return Annotate(host, absl::StrCat("chunk of rank ", rank.value()));
  ranks_.insert(rank);
  return absl::OkStatus();
}

}  // namespace gradwire
