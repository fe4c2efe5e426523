#include "bench/rank/collective_rank.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

LoopOptions LoopOptionsOf(const RankOptions& options) {
  LoopOptions loop;
  loop.operation = OperationCalled(options.op);
  loop.shared_tensors = options.tensors == kSharedTensors;
  loop.bytes = options.bytes;
  loop.warmup = options.warmup;
  loop.iterations = options.iterations;
  if (options.seconds > 0) loop.limit = absl::Seconds(options.seconds);
  loop.step_timeout = absl::Seconds(options.timeout_seconds);
  return loop;
}

absl::StatusOr<std::unique_ptr<RunMember>> MakeMember(const RankOptions& options) {
  const absl::StatusOr<v1::DType> wire = ParseWire(options.wire);
  if (!wire.ok()) return wire.status();
  MemberOptions member;
  member.endpoint.coordinator = options.coordinator;
  member.endpoint.connect_timeout = absl::Seconds(options.timeout_seconds);
  member.endpoint.security = options.security;
  member.backend = options.backend;
  member.transport.wire = *wire;
  member.step_timeout = absl::Seconds(options.timeout_seconds);
  return RunMember::Create(member);
}

v1::Hello HelloOf(const RankOptions& options) {
  v1::Hello hello;
  hello.add_ranks(options.rank);
  hello.set_world_size(options.world_size);
  hello.set_cannot_recover("a measured run ends together");
  auto& settings = *hello.mutable_settings();
  settings["backend"] = options.backend;
  settings["wire"] = options.wire;
  settings["op"] = options.op;
  settings["warmup"] = absl::StrCat(options.warmup);
  settings["iterations"] = absl::StrCat(options.iterations);
  settings["seconds"] = absl::StrCat(options.seconds);
  return hello;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveRank>> CollectiveRank::Join(const RankOptions& options) {
  absl::StatusOr<std::unique_ptr<RunMember>> member = MakeMember(options);
  if (!member.ok()) return member.status();
  const absl::StatusOr<View> view = (*member)->Join(HelloOf(options));
  if (!view.ok()) return view.status();
  if (absl::Status connected = (*member)->Connect(*view); !connected.ok()) return connected;
  const std::vector<BucketSpec> buckets = LoopBuckets(LoopOptionsOf(options));
  if (const auto layout = (*member)->Declare("", {}, buckets); !layout.ok()) return layout.status();
  return absl::WrapUnique(new CollectiveRank(options, *std::move(member)));
}

absl::StatusOr<std::string> CollectiveRank::Measure() {
  const Pattern pattern(options_.bytes / sizeof(float), options_.world_size, Rank(options_.rank),
                        ToleranceOf(options_.backend, options_.wire, options_.world_size,
                                    OperationCalled(options_.op)));
  CollectiveLoop loop(&member_->exchange(), Rank(options_.rank), options_.world_size, &pattern,
                      LoopOptionsOf(options_));
  absl::StatusOr<std::string> report = options_.show ? Report(loop.Show()) : Report(loop.Run());
  absl::Status status = report.status();
  if (status.ok()) {
    status = member_->Finish(SteadyNow() + absl::Seconds(options_.timeout_seconds));
  }
  if (status.ok()) status = member_->Leave("all is measured");
  if (!status.ok()) return member_->Fail(status, Step(0));
  return report;
}

absl::StatusOr<std::string> CollectiveRank::Report(const absl::StatusOr<LoopResult>& result) const {
  if (!result.ok()) return result.status();
  const nlohmann::ordered_json json = {{"rank", options_.rank},
                                       {"bytes", options_.bytes},
                                       {"seconds", result->seconds},
                                       {"cpu_seconds", result->cpu_seconds},
                                       {"bytes_sent", result->moved.bytes_sent},
                                       {"bytes_received", result->moved.bytes_received},
                                       {"iterations_in_all", result->iterations_in_all},
                                       {"checked", result->checked},
                                       {"wrong", result->wrong}};
  return json.dump() + "\n";
}

absl::StatusOr<std::string> CollectiveRank::Report(const absl::StatusOr<Shown>& shown) const {
  if (!shown.ok()) return shown.status();
  nlohmann::ordered_json json = {{"rank", options_.rank}, {"input", shown->input}};
  json["output"] = nlohmann::ordered_json::array();
  for (const absl::optional<float>& value : shown->output) {
    json["output"].push_back(value ? nlohmann::ordered_json(*value) : nullptr);
  }
  json["sent"] = nlohmann::ordered_json::object();  // bytes by receiver
  for (const auto& [link, bytes] : shown->moved.sent_on) {
    if (bytes > 0) json["sent"][absl::StrCat(link.second.value())] = bytes;
  }
  return json.dump() + "\n";
}

}  // namespace gradwire
