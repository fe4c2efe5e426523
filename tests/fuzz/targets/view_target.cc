// What a member hears from the coordinator: views and layouts, any bytes of them, and right ones
// with fields changed.
//
//   input[0]  0: the rest is the message; else how many fields are changed
//   the rest  changes, or the message

#include <utility>

#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "tests/fuzz/alter_field.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire {
namespace {

constexpr uint64_t kSelf = 2;

v1::CoordinatorMessage RightView(bool to_an_aggregator) {
  v1::CoordinatorMessage message;
  v1::View& view = *message.mutable_view();
  view.set_run_id(std::string(16, '\7'));
  view.set_epoch(1);
  view.set_generation(1);
  view.set_world_size(3);
  view.set_chunk_bytes(64);
  view.set_threads(1);
  for (uint64_t worker : {1, 2}) {
    v1::Member& member = *view.add_members();
    member.set_incarnation(worker);
    member.add_ranks(static_cast<uint32_t>(worker) - 1);
  }
  view.mutable_members(1)->add_ranks(2);
  view.add_aggregators("10.10.1.9:1");
  if (to_an_aggregator) view.set_aggregator(0);
  return message;
}

// All that others ask of a view that was found right.
std::string CheckView(const View& view) {
  for (int rank = 0; rank < view.world_size; ++rank) {
    (void)view.Carries(Rank(rank));
    const std::vector<Rank>& ranks = view.Carrier(Rank(rank)).ranks;
    if (ranks.empty()) return "a rank is carried by a member without ranks";
  }
  for (const Rank rank : view.OwnRanks()) {
    if (rank.value() < 0 || rank.value() >= view.world_size)
      return "a rank beyond the world is own";
  }
  const auto places = static_cast<int>(view.aggregators.size());
  if (view.aggregator && (*view.aggregator < 0 || *view.aggregator >= places)) {
    return "an aggregator's place is none";
  }
  if (!view.aggregator && view.OwnRanks().empty()) return "a worker carries no rank";
  const absl::StatusOr<View> again = ViewFromProto(ToProto(view), view.self);
  return again.ok() ? "" : "a view that was right is not when it is sent on";
}

std::string CheckBuckets(const v1::LayoutAgreed& agreed) {
  for (const BucketSpec& spec : BucketsFromProto(agreed.buckets())) {
    const bool is_known = ElementBytes(spec.dtype) > 0;
    if (IsBroadcast(spec) && !is_known) return "bytes are no dtype";
    (void)CollectiveOf(spec);
    (void)Contributes(spec, Rank(0));
  }
  return "";
}

}  // namespace

std::string ViolatedByView(absl::string_view bytes) {
  static const auto silent = google::protobuf::SetLogHandler(nullptr);
  (void)silent;
  InputReader input(bytes);
  v1::CoordinatorMessage message = RightView(input.Flag());
  const uint64_t changes = input.Below(8);
  for (uint64_t i = 0; i < changes; ++i) AlterField(&input, &message);
  const std::string wire = changes == 0 ? input.Rest() : message.SerializeAsString();
  v1::CoordinatorMessage received;
  if (!received.ParseFromString(wire)) return "";
  if (received.has_layout_agreed()) return CheckBuckets(received.layout_agreed());
  const absl::StatusOr<View> view = ViewFromProto(received.view(), Incarnation(kSelf));
  if (view.ok()) return CheckView(*view);
  return absl::IsInvalidArgument(view.status()) ? "" : "a view is refused with another error";
}

std::vector<std::string> ViewSeeds() {
  std::vector<std::string> seeds = {""};
  for (const bool to_an_aggregator : {false, true}) {
    const char first = to_an_aggregator ? '\1' : '\0';
    seeds.push_back(std::string({first, 0}) + RightView(to_an_aggregator).SerializeAsString());
    // The view's fields, one after the other: the message's first field, then the number of it.
    for (char field = 0; field < 11; ++field) {
      for (const char value : {'\0', '\1', '\xe4', '\xe7'}) {
        seeds.push_back({first, 1, 0, field, value, value, value});
      }
    }
  }
  return seeds;
}

}  // namespace gradwire
