#include "cli/bench/bench_request.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "bench/bounds.h"
#include "bench/setups.h"
#include "common/base/blas.h"
#include "common/base/program_files.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPeer[] = "gloo (PyTorch)";
constexpr char kWidest[] = "fp32";

Json Programs() {
  return {{"coordinator", absl::StrCat(ProgramDir(), "/gradwire-coordinator")},
          {"worker", absl::StrCat(ProgramDir(), "/gradwire-worker")},
          {"collectives", PrivateFile("gradwire-collectives")},
          {"layout", PrivateFile("gradwire-layout")},
          {"peers", PrivateFile("peers")}};
}

Json LinkGbit(const BenchOptions& options) {
  const absl::optional<double> gbit = options.LinkGbit();
  return gbit.has_value() ? Json(*gbit) : Json(nullptr);
}

const char* NameOf(SetupKind kind) {
  switch (kind) {
    case SetupKind::kAlone:
      return "alone";
    case SetupKind::kOwn:
      return "own";
    case SetupKind::kPeer:
      return "peer";
  }
  return "";
}

Json Wires(const CollectivesOptions& options, const std::string& backend) {
  Json wires = Json::object();
  for (const std::string& wire : options.wires) {
    if (wire == kWidest || TraitsOfBackend(backend).halves) wires[wire] = WireBytes(wire);
  }
  return wires;
}

Json Backend(const CollectivesOptions& options, const std::string& name, const Json& wires) {
  const absl::optional<double> gbit = options.bench.LinkGbit();
  const LinkLoad load = LoadOfAverage(name, options.bench.workers, 1);
  return {{"name", name},
          {"is_peer", name == kPeer},
          {"wires", wires},
          {"loads_coordinator", TraitsOfBackend(name).links == LinkPattern::kCoordinator},
          {"least_seconds_per_byte",
           gbit.has_value() ? Json(LeastSeconds(load, *gbit)) : Json(nullptr)}};
}

Json Backends(const CollectivesOptions& options) {
  Json backends = Json::array();
  for (const std::string& name : options.backends) {
    backends.push_back(Backend(options, name, Wires(options, name)));
  }
  if (options.bench.peers) {
    backends.push_back(Backend(options, kPeer, {{kWidest, WireBytes(kWidest)}}));
  }
  return backends;
}

}  // namespace

Json BenchRequest(const BenchOptions& options, const std::string& command) {
  const absl::StatusOr<Blas> blas = FindBlas();
  return {{"command", command},
          {"programs", Programs()},
          {"versions",
           {{"blas", blas.ok() ? Describe(*blas) : std::string(blas.status().message())},
            {"gradwire", GRADWIRE_VERSION},
            {"grpc", grpc::Version()}}},
          {"blas_path", blas.ok() ? blas->path : ""},
          {"workers", options.workers},
          {"hosts", options.hosts},
          {"hostfile", options.hostfile},
          {"rate", options.rate},
          {"port", options.port},
          {"peers", options.peers},
          {"timeout_seconds", options.timeout_seconds},
          {"link_gbit", LinkGbit(options)},
          {"files", ToJson(options.files)}};
}

Json TrainingRequest(const TrainingOptions& options, const std::string& command) {
  Json request = BenchRequest(options.bench, command);
  request.update({{"rounds", options.rounds},
                  {"iterations", options.iterations},
                  {"batch_size", options.batch_size},
                  {"model", options.model},
                  {"model_options", ToArguments(options)},
                  {"dataset", options.dataset},
                  {"data_dir", options.data_dir}});
  for (const std::string& name : options.setups) {
    const Setup& setup = SetupCalled(name);
    request["setups"].push_back({{"name", name},
                                 {"kind", NameOf(setup.kind)},
                                 {"options", setup.options},
                                 {"peers", setup.peers}});
  }
  return request;
}

Json CollectivesRequest(const CollectivesOptions& options, const std::string& command) {
  Json request = BenchRequest(options.bench, command);
  request.update({{"sizes", options.Sizes()},
                  {"backends", Backends(options)},
                  {"busbw_factor", BusBandwidth(1, options.bench.workers)},
                  {"warmup", options.warmup},
                  {"iterations", options.iterations},
                  {"seconds_per_size", options.seconds_per_size}});
  return request;
}

}  // namespace gradwire
