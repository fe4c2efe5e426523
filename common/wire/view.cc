#include "common/wire/view.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire {

namespace {

// Returns null if it is no longer in the view.
const Member* FindMember(const View& view, Incarnation incarnation) {
  const auto found = std::find_if(
      view.members.begin(), view.members.end(),
      [incarnation](const Member& member) { return member.incarnation == incarnation; });
  return found == view.members.end() ? nullptr : &*found;
}

std::vector<Rank> Without(const std::vector<Rank>& ranks, const Member* member) {
  if (member == nullptr) return ranks;
  std::vector<Rank> left;
  std::set_difference(ranks.begin(), ranks.end(), member->ranks.begin(), member->ranks.end(),
                      std::back_inserter(left));
  return left;
}

}  // namespace

std::vector<Rank> ViewChange::LostRanks() const {
  std::vector<Rank> ranks;
  for (const Member& member : lost) {
    ranks.insert(ranks.end(), member.ranks.begin(), member.ranks.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

ViewChange ChangeOf(const View& before, const View& now) {
  ViewChange change;
  for (const Member& member : before.members) {
    if (FindMember(now, member.incarnation) == nullptr) change.lost.push_back(member);
  }
  for (const Member& member : now.members) {
    std::vector<Rank> adopted = Without(member.ranks, FindMember(before, member.incarnation));
    if (!adopted.empty()) change.adoptions.push_back({member, std::move(adopted)});
  }
  return change;
}

namespace {

// InvalidArgument unless each rank of 0 … W-1 is carried exactly once.
absl::Status CheckRanks(const View& view) {
  constexpr int kMaxWorldSize = 1 << 20;
  if (view.world_size < 1 || view.world_size > kMaxWorldSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("view: got world size ", view.world_size, ", expected 1 to ", kMaxWorldSize));
  }
  std::vector<int> carriers(view.world_size, 0);
  for (const Member& member : view.members) {
    for (Rank rank : member.ranks) {
      if (rank.value() < 0 || rank.value() >= view.world_size) {
        return absl::InvalidArgumentError(
            absl::StrCat("view: got rank ", rank.value(), ", expected 0 to ", view.world_size - 1));
      }
      ++carriers[rank.value()];
    }
  }
  for (int rank = 0; rank < view.world_size; ++rank) {
    if (carriers[rank] == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("view: rank ", rank, " has ", carriers[rank], " carriers, expected 1"));
  }
  return absl::OkStatus();
}

absl::Status Check(const View& view) {
  if (view.chunk_bytes == 0 || view.chunk_bytes % 64 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("view: got chunk_bytes ", view.chunk_bytes,
                                                   ", expected a positive multiple of 64"));
  }
  if (view.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("view: got ", view.threads, " threads, expected 1 or more"));
  }
  if (absl::Status ranks = CheckRanks(view); !ranks.ok()) return ranks;
  if (!view.aggregator.has_value()) {
    if (!view.OwnRanks().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("view: got no rank for its receiver, expected one or more");
  }
  const int place = *view.aggregator;
  if (place >= 0 && place < static_cast<int>(view.aggregators.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("view: got aggregator ", place, " of ", view.aggregators.size()));
}

}  // namespace

const Member& View::Carrier(Rank rank) const {
  return *std::find_if(members.begin(), members.end(), [rank](const Member& member) {
    return std::find(member.ranks.begin(), member.ranks.end(), rank) != member.ranks.end();
  });
}

bool View::SharesMemory() const {
  return std::all_of(members.begin(), members.end(), [this](const Member& member) {
    return !member.memory.empty() && member.memory == members.front().memory;
  });
}

bool View::SharesMemoryWith(const Member& member) const {
  return std::any_of(members.begin(), members.end(), [&](const Member& own) {
    return own.incarnation == self && !own.memory.empty() && own.memory == member.memory;
  });
}

std::vector<std::vector<Rank>> View::MemoryGroups() const {
  std::map<std::string, std::pair<int, std::vector<Rank>>> by_memory;  // workers, ranks
  for (const Member& member : members) {
    if (member.memory.empty()) continue;
    auto& [workers, ranks] = by_memory[member.memory];
    ++workers;
    ranks.insert(ranks.end(), member.ranks.begin(), member.ranks.end());
  }
  std::vector<std::vector<Rank>> groups;
  for (auto& [memory, group] : by_memory) {
    if (group.first < 2) continue;
    std::sort(group.second.begin(), group.second.end());
    groups.push_back(std::move(group.second));
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

std::vector<Rank> View::OwnRanks() const {
  for (const Member& member : members) {
    if (member.incarnation == self) return member.ranks;
  }
  return {};
}

std::string NameOf(absl::Span<const Rank> ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks, ", ", [](std::string* out, Rank rank) {
                        absl::StrAppend(out, rank.value());
                      }));
}

namespace {

// A limit on the wire; 0 stands for none, so a limit of 0 bytes is 1.
uint64_t LimitOf(uint64_t bytes) {
  return bytes == MemoryLimits::kNoLimit ? 0 : std::max<uint64_t>(bytes, 1);
}
uint64_t LimitFrom(uint64_t number) { return number == 0 ? MemoryLimits::kNoLimit : number; }

}  // namespace

v1::MemoryLimits ToProto(const MemoryLimits& limits) {
  v1::MemoryLimits proto;
  proto.set_file(LimitOf(limits.file));
  proto.set_address(LimitOf(limits.address));
  proto.set_group(LimitOf(limits.group));
  proto.set_host(LimitOf(limits.host));
  return proto;
}

MemoryLimits LimitsFromProto(const v1::MemoryLimits& proto) {
  return {LimitFrom(proto.file()), LimitFrom(proto.address()), LimitFrom(proto.group()),
          LimitFrom(proto.host())};
}

v1::View ToProto(const View& view) {
  v1::View proto;
  proto.set_run_id(ToBytes(view.run_id));
  proto.set_epoch(view.epoch.value());
  proto.set_generation(view.generation.value());
  proto.set_world_size(view.world_size);
  proto.set_chunk_bytes(view.chunk_bytes);
  proto.set_threads(view.threads);
  proto.set_first_step(view.first_step.value());
  proto.set_seals(view.seals);
  proto.set_records(view.records);
  proto.set_keeps_state(view.keeps_state);
  proto.set_checkpoint_every(view.checkpoint_every);
  for (const Member& member : view.members) {
    v1::Member* out = proto.add_members();
    out->set_incarnation(member.incarnation.value());
    out->set_address(member.address);
    for (Rank rank : member.ranks) out->add_ranks(rank.value());
    out->set_pid(member.pid);
    out->set_memory(member.memory);
    if (!member.memory.empty()) *out->mutable_memory_limits() = ToProto(member.limits);
  }
  for (const std::string& address : view.aggregators) proto.add_aggregators(address);
  if (view.aggregator.has_value()) proto.set_aggregator(*view.aggregator);
  return proto;
}

absl::StatusOr<View> ViewFromProto(const v1::View& proto, Incarnation self) {
  absl::StatusOr<RunId> run_id = RunIdFromBytes(proto.run_id());
  if (!run_id.ok()) return run_id.status();
  View view;
  view.run_id = *run_id;
  view.epoch = CoordinatorEpoch(proto.epoch());
  view.generation = Generation(proto.generation());
  view.world_size = static_cast<int>(proto.world_size());
  view.self = self;
  view.chunk_bytes = proto.chunk_bytes();
  view.aggregators = {proto.aggregators().begin(), proto.aggregators().end()};
  view.threads = static_cast<int>(proto.threads());
  view.first_step = Step(proto.first_step());
  view.seals = proto.seals();
  view.records = proto.records();
  view.keeps_state = proto.keeps_state();
  view.checkpoint_every = proto.checkpoint_every();
  if (proto.has_aggregator()) view.aggregator = static_cast<int>(proto.aggregator());
  for (const v1::Member& member : proto.members()) {
    Member out{
        Incarnation(member.incarnation()),      member.address(), {}, member.pid(), member.memory(),
        LimitsFromProto(member.memory_limits())};
    for (uint32_t rank : member.ranks()) out.ranks.emplace_back(static_cast<int>(rank));
    view.members.push_back(std::move(out));
  }
  if (absl::Status status = Check(view); !status.ok()) return status;
  return view;
}

absl::StatusOr<RunId> RunIdFromBytes(const std::string& bytes) {
  RunId run_id;
  if (bytes.size() != run_id.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("run_id: got ", bytes.size(), " bytes, expected ", run_id.size()));
  }
  std::copy(bytes.begin(), bytes.end(), run_id.begin());
  return run_id;
}

std::string ToBytes(const RunId& run_id) { return std::string(run_id.begin(), run_id.end()); }

}  // namespace gradwire
