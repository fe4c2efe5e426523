#include "bench/rank/collective_rank.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/session/local_address.h"

namespace gradwire {
namespace {

LoopOptions LoopOptionsOf(const RankOptions& options) {
  LoopOptions loop;
  loop.operation = OperationCalled(options.op);
  loop.bytes = options.bytes;
  loop.warmup = options.warmup;
  loop.iterations = options.iterations;
  if (options.seconds > 0) loop.limit = absl::Seconds(options.seconds);
  loop.step_timeout = absl::Seconds(options.timeout_seconds);
  return loop;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveRank>> CollectiveRank::Join(const RankOptions& options) {
  auto rank = absl::WrapUnique(new CollectiveRank(options));
  absl::Status status = rank->Prepare();
  if (!status.ok()) return status;
  return rank;
}

CollectiveRank::~CollectiveRank() {
  OnAbort(absl::CancelledError("the rank ends"));
  server_.Shutdown();
}

absl::Status CollectiveRank::Prepare() {
  const absl::StatusOr<v1::DType> wire = ParseWire(options_.wire);
  if (!wire.ok()) return wire.status();
  absl::StatusOr<Security> security = Security::Read(options_.security);
  if (!security.ok()) return security.status();
  security_ = *std::move(security);
  BackendOptions backend_options;
  backend_options.security = security_;
  backend_options.coordinator = options_.coordinator;
  backend_options.wire = *wire;
  auto backend = MakeBackend(options_.backend, backend_options);
  if (!backend.ok()) return backend.status();
  backend_ = *std::move(backend);
  const absl::StatusOr<std::string> address = ServeNeighbours();
  if (!address.ok()) return address.status();
  const absl::StatusOr<View> view = JoinSession(*address);
  if (!view.ok()) return view.status();
  return Connect(*view, *wire);
}

absl::Status CollectiveRank::Connect(const View& view, v1::DType wire) {
  const auto ended = [this] {
    MutexLock lock(&mutex_);
    return ended_;
  };
  absl::optional<Incarnation> suspect;  // the coordinator sees who is gone
  auto connected = backend_->Connect(view, ended, &suspect);
  if (!connected.ok()) return connected.status();
  const std::vector<BucketSpec> buckets = LoopBuckets(LoopOptionsOf(options_));
  const auto layout = session_->DeclareLayout(ToProto({}, WireSpecs(buckets, wire)));
  if (!layout.ok()) return layout.status();
  (*connected)->AddLayout(*layout, buckets);
  MutexLock lock(&mutex_);
  exchange_ = *std::move(connected);
  return ended_;
}

Exchange* CollectiveRank::exchange() {
  MutexLock lock(&mutex_);
  return exchange_.get();
}

void CollectiveRank::OnAbort(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    ended_ = status;
  }
  if (exchange() != nullptr) exchange()->Cancel(status);
}

absl::StatusOr<std::string> CollectiveRank::ServeNeighbours() {
  std::vector<grpc::Service*> services;
  for (grpc::Service* service : backend_->services()) services.push_back(service);
  const absl::StatusOr<std::string> listen = ListenAddressOf("", "", options_.coordinator);
  if (!listen.ok()) return listen.status();
  auto server = StartGrpcServer(*listen, services, security_);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return server_.address;
}

absl::StatusOr<View> CollectiveRank::JoinSession(const std::string& address) {
  SessionOptions session_options;
  session_options.coordinator = options_.coordinator;
  session_options.connect_timeout = absl::Seconds(options_.timeout_seconds);
  session_options.security = security_;
  auto session =
      Session::Open(session_options, [this](const absl::Status& status) { OnAbort(status); });
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  v1::Hello hello;
  hello.add_ranks(options_.rank);
  hello.set_world_size(options_.world_size);
  hello.set_address(address);
  auto& settings = *hello.mutable_settings();
  settings["backend"] = options_.backend;
  settings["wire"] = options_.wire;
  settings["op"] = options_.op;
  settings["warmup"] = absl::StrCat(options_.warmup);
  settings["iterations"] = absl::StrCat(options_.iterations);
  settings["seconds"] = absl::StrCat(options_.seconds);
  absl::StatusOr<View> view = session_->Join(std::move(hello));
  if (view.ok()) server_.AllowCalls(CallsOf(view->world_size));
  return view;
}

absl::StatusOr<std::string> CollectiveRank::Measure() {
  const Pattern pattern(options_.bytes / sizeof(float), options_.world_size, Rank(options_.rank),
                        ToleranceOf(options_.backend, options_.wire, options_.world_size,
                                    OperationCalled(options_.op)));
  CollectiveLoop loop(exchange(), Rank(options_.rank), options_.world_size, &pattern,
                      LoopOptionsOf(options_));
  absl::StatusOr<std::string> report = options_.show ? Report(loop.Show()) : Report(loop.Run());
  absl::Status status = report.status();
  if (status.ok()) {
    status = exchange()->Finish(SteadyNow() + absl::Seconds(options_.timeout_seconds));
  }
  const std::string reason = status.ok() ? "all is measured" : std::string(status.message());
  const absl::Status left = session_->Leave(status.ok(), reason);
  if (!status.ok()) return status;
  if (!left.ok()) return left;
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
