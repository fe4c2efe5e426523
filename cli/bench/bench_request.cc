#include "cli/bench/bench_request.h"

#include <grpcpp/grpcpp.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "bench/operations.h"
#include "common/base/environment.h"
#include "common/base/host.h"
#include "worker/options/choices.h"
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
          {"make_certificates", PrivateFile("make-certificates")},
          {"mpi", PrivateFile("libgradwire_mpi.so")},
          {"peers", PrivateFile("peers")}};
}

// Names of back ends whose ranks mpirun must start.
Json UnderMpirun() {
  Json names = Json::array();
  for (const std::string& name : NamesOf(BackendChoices())) {
    if (TraitsOfBackend(name).under_mpirun) names.push_back(name);
  }
  return names;
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

// The load that one byte puts on the links.
LinkLoad LoadOf(const Operation& operation, const std::string& backend, int workers) {
  if (operation.collective == v1::COLLECTIVE_ALL_REDUCE) return LoadOfAverage(backend, workers, 1);
  if (operation.collective == v1::COLLECTIVE_BROADCAST) return LoadOfBroadcast(backend, workers, 1);
  return {BusFactor(operation, workers), 0};
}

// By name of each operation that the back end has; null if the speed of the links is unknown.
Json LeastSecondsPerByte(const CollectivesOptions& options, const std::string& backend) {
  const absl::optional<double> gbit = options.bench.LinkGbit();
  Json least = Json::object();
  for (const std::string& name : options.ops) {
    const Operation& operation = OperationCalled(name);
    if (backend == kPeer && !PeerHas(operation)) continue;
    const LinkLoad load = LoadOf(operation, backend, options.bench.workers);
    least[name] = gbit.has_value() ? Json(LeastSeconds(load, *gbit)) : Json(nullptr);
  }
  return least;
}

Json Backend(const CollectivesOptions& options, const std::string& name, const Json& wires) {
  return {{"name", name},
          {"is_peer", name == kPeer},
          {"asked", options.backends_given},
          {"wires", wires},
          {"tls", options.tls && name != kPeer && !TraitsOfBackend(name).no_tls},
          {"loads_coordinator", TraitsOfBackend(name).links == LinkPattern::kCoordinator},
          {"least_seconds_per_byte", LeastSecondsPerByte(options, name)}};
}

Json Ops(const CollectivesOptions& options) {
  Json ops = Json::array();
  for (const std::string& name : options.ops) {
    const Operation& operation = OperationCalled(name);
    std::set<uint64_t> sizes;
    for (const uint64_t bytes : options.Sizes()) {
      sizes.insert(SizeFor(operation, bytes, options.bench.workers));
    }
    ops.push_back({{"name", name},
                   {"sums", operation.sums},
                   {"sizes", sizes},
                   {"busbw_factor", BusFactor(operation, options.bench.workers)}});
  }
  return ops;
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

Json ToJson(const absl::optional<ComputeSeconds>& seconds) {
  if (!seconds.has_value()) return nullptr;
  return {{"forward", seconds->forward},
          {"backward", seconds->backward},
          {"option", ToString(seconds)}};
}

Json RingSecondsPerByte(const BenchOptions& options) {
  const absl::optional<double> gbit = options.LinkGbit();
  if (!gbit.has_value()) return nullptr;
  return LeastSeconds(LoadOfAverage("ring", options.workers, 1), *gbit);
}
// Names of back ends whose workers must be on one host.
Json OfOneHost() {
  Json names = Json::array();
  for (const std::string& name : NamesOf(BackendChoices())) {
    if (TraitsOfBackend(name).links == LinkPattern::kNone) names.push_back(name);
  }
  return names;
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
          {"blas_warning", blas.ok() ? blas->warning : ""},
          {"under_mpirun", UnderMpirun()},
          {"one_host", OfOneHost()},
          {"cores", UsableCores()},
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
                  {"compute_seconds", ToJson(options.compute_seconds)},
                  {"ring_seconds_per_byte", RingSecondsPerByte(options.bench)},
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
  request.update({{"ops", Ops(options)},
                  {"backends", Backends(options)},
                  {"tls", options.tls},
                  {"warmup", options.warmup},
                  {"iterations", options.iterations},
                  {"seconds_per_size", options.seconds_per_size}});
  return request;
}

}  // namespace gradwire
