#include "common/rpc/caller.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr char kKey[] = "gradwire-incarnation";

}  // namespace

void SayWho(Incarnation self, grpc::ClientContext* context) {
  context->AddMetadata(kKey, absl::StrCat(self.value()));
}

bool SaysWho(const grpc::ServerContext& context) {
  return context.client_metadata().count(kKey) > 0;
}

bool IsMember(const grpc::ServerContext& context, const View& view) {
  const auto said = context.client_metadata().find(kKey);
  if (said == context.client_metadata().end()) return false;
  uint64_t incarnation;
  if (!absl::SimpleAtoi(absl::string_view(said->second.data(), said->second.size()),
                        &incarnation)) {
    return false;
  }
  return std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
    return member.incarnation == Incarnation(incarnation);
  });
}

}  // namespace gradwire
