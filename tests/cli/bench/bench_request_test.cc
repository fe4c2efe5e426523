#include "cli/bench/bench_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/host.h"

namespace gradwire::bench_request_test {
namespace {

using Json = nlohmann::ordered_json;

TrainingOptions Training(const std::vector<std::string>& args) {
  return ParseTrainingOptions(args, {})->options;
}

CollectivesOptions Collectives(const std::vector<std::string>& args) {
  return ParseCollectivesOptions(args, {})->options;
}

TEST(TrainingRequest, Options_ReachTheScript) {
  const Json request = TrainingRequest(
      Training({"--workers", "3", "--hosts", "h", "--rate", "1gbit", "--rounds", "5", "--csv", "x",
                "--setups", "computation,ddp-bf16", "--data-dir", "d", "--timeout-seconds", "9"}),
      "gradwire bench training x");
  EXPECT_EQ(request["command"], "gradwire bench training x");
  EXPECT_EQ(request["cores"], UsableCores());
  EXPECT_EQ(request["workers"], 3);
  EXPECT_EQ(request["hosts"], "h");
  EXPECT_EQ(request["rate"], "1gbit");
  EXPECT_EQ(request["link_gbit"], 1);
  EXPECT_EQ(request["timeout_seconds"], 9);
  EXPECT_EQ(request["rounds"], 5);
  EXPECT_EQ(request["data_dir"], "d");
  EXPECT_EQ(request["files"], Json({{"json", ""}, {"csv", "x"}, {"markdown", ""}}));
  EXPECT_EQ(request["setups"][1]["name"], "ddp-bf16");
  EXPECT_EQ(request["setups"][1]["options"], Json({"--sync", "ddp", "--wire", "bf16"}));
  EXPECT_EQ(request["setups"][1]["peers"], Json({"gloo-ddp", "gloo-ddp-fp16"}));
}

TEST(TrainingRequest, EmulatedComputation_ReachesTheScriptWithTheRingsBound) {
  const Json request = TrainingRequest(
      Training({"--compute-seconds", "0.3,0.6", "--workers", "4", "--link-gbit", "1"}), "");
  EXPECT_EQ(request["compute_seconds"],
            Json({{"forward", 0.3}, {"backward", 0.6}, {"option", "0.3,0.6"}}));
  EXPECT_DOUBLE_EQ(request["ring_seconds_per_byte"].get<double>(), 1.5 * 8e-9 * 1514 / 1448);
  const Json real = TrainingRequest(Training({}), "");
  EXPECT_TRUE(real["compute_seconds"].is_null());
  EXPECT_TRUE(real["ring_seconds_per_byte"].is_null());
}

TEST(TrainingRequest, WhatEachRunDoes_ReachesTheScript) {
  const Json request =
      TrainingRequest(Training({"--port", "4711", "--iterations", "7", "--batch-size", "3",
                                "--model", "lenet", "--dataset", "mnist"}),
                      "");
  EXPECT_EQ(request["port"], 4711);
  EXPECT_EQ(request["iterations"], 7);
  EXPECT_EQ(request["batch_size"], 3);
  EXPECT_EQ(request["model"], "lenet");
  EXPECT_EQ(request["dataset"], "mnist");
}

TEST(TrainingRequest, Blas_IsTheOneThatIsLoaded) {
  const Json request = TrainingRequest(Training({}), "");
  const absl::StatusOr<Blas> blas = FindBlas();
  EXPECT_EQ(request["blas_path"], blas.ok() ? blas->path : "");
  EXPECT_EQ(request["blas_warning"], blas.ok() ? blas->warning : "");
}

TEST(CollectivesRequest, HowLongItMeasures_ReachesTheScript) {
  const Json request = CollectivesRequest(
      Collectives({"--warmup", "3", "--iterations", "11", "--seconds-per-size", "2.5"}), "");
  EXPECT_EQ(request["warmup"], 3);
  EXPECT_EQ(request["iterations"], 11);
  EXPECT_EQ(request["seconds_per_size"], 2.5);
}

TEST(TrainingRequest, Setups_HaveTheirKinds) {
  const Json request =
      TrainingRequest(Training({"--peers", "--setups", "computation,ddp,gloo-ddp"}), "");
  EXPECT_EQ(request["setups"][0]["kind"], "alone");
  EXPECT_EQ(request["setups"][1]["kind"], "own");
  EXPECT_EQ(request["setups"][2]["kind"], "peer");
}

TEST(TrainingRequest, Model_IsPassedOnWithAllThatChangesIt) {
  const Json request = TrainingRequest(Training({"--model", "vgg16", "--hidden", "8"}), "");
  EXPECT_EQ(request["model_options"], Json({"--model", "vgg16", "--hidden", "8"}));
}

TEST(TrainingRequest, Hostfile_ReachesTheScript) {
  const Json request = TrainingRequest(Training({"--hostfile", "f"}), "");
  EXPECT_EQ(request["hostfile"], "f");
  EXPECT_EQ(request["hosts"], "");
}

TEST(TrainingRequest, Programs_AreThere) {
  const auto request = TrainingRequest(Training({}), "");
  for (const auto& [name, path] : request["programs"].items()) {
    EXPECT_TRUE(std::filesystem::exists(path.get<std::string>())) << name << " " << path;
  }
  const auto file = [&request](const char* name) {
    return std::filesystem::path(request["programs"][name].get<std::string>()).filename();
  };
  EXPECT_EQ(file("coordinator"), "gradwire-coordinator");
  EXPECT_EQ(file("worker"), "gradwire-worker");
  EXPECT_EQ(file("collectives"), "gradwire-collectives");
  EXPECT_EQ(file("layout"), "gradwire-layout");
  EXPECT_EQ(file("make_certificates"), "make-certificates");
  EXPECT_EQ(file("mpi"), "libgradwire_mpi.so");
  EXPECT_EQ(file("peers"), "peers");
}

TEST(CollectivesRequest, Backends_HaveTheirWiresAndLinks) {
  const Json request = CollectivesRequest(
      Collectives({"--backends", "coordinator,gloo", "--wire", "fp32,bf16", "--sizes", "4,1K"}),
      "");
  EXPECT_EQ(request["ops"][0]["name"], "all-reduce");
  EXPECT_EQ(request["ops"][0]["sizes"], Json({4, 1024}));
  ASSERT_EQ(request["backends"].size(), 2u);
  EXPECT_EQ(request["backends"][0]["wires"], Json({{"fp32", 4.0}, {"bf16", 2.0}}));
  EXPECT_EQ(request["backends"][0]["loads_coordinator"], true);
  EXPECT_EQ(request["backends"][0]["asked"], true);
  EXPECT_EQ(request["under_mpirun"], Json::array({"mpi"}));
  EXPECT_EQ(request["one_host"], Json::array({"memory"}));
  EXPECT_EQ(request["backends"][1]["wires"], Json({{"fp32", 4.0}}));
  EXPECT_EQ(request["backends"][1]["loads_coordinator"], false);
  EXPECT_TRUE(request["backends"][0]["least_seconds_per_byte"]["all-reduce"].is_null());
  EXPECT_EQ(request["ops"][0]["busbw_factor"], 1.5);
}

TEST(CollectivesRequest, Link_GivesTheLeastTimeOfAByte) {
  const Json request =
      CollectivesRequest(Collectives({"--backends", "coordinator,ring", "--link-gbit", "1"}), "");
  const double second = 1e9 / 8 * 1448 / 1514;  // bytes of payload in one
  const auto least = [&request](int backend) {
    return request["backends"][backend]["least_seconds_per_byte"]["all-reduce"].get<double>();
  };
  EXPECT_DOUBLE_EQ(least(0), 4 / second);
  EXPECT_DOUBLE_EQ(least(1), 1.5 / second);
}

TEST(CollectivesRequest, Ops_HaveTheirSizesAndThePeerWhatItHas) {
  const Json request = CollectivesRequest(
      Collectives({"--ops", "gather,reduce-scatter", "--peers", "--sizes", "4,20"}), "");
  ASSERT_EQ(request["ops"].size(), 2u);
  EXPECT_EQ(request["ops"][0]["sizes"], Json({16, 32}));  // four ranks have a part each
  EXPECT_EQ(request["ops"][0]["sums"], false);
  EXPECT_EQ(request["ops"][1]["sums"], true);
  EXPECT_EQ(request["ops"][1]["busbw_factor"], 0.75);
  ASSERT_EQ(request["backends"].size(), 4u);
  EXPECT_EQ(request["backends"][0]["name"], "ring");
  EXPECT_EQ(request["backends"][1]["name"], "tree");
  EXPECT_EQ(request["backends"][2]["name"], "memory");
  EXPECT_EQ(request["backends"][3]["least_seconds_per_byte"], Json({{"gather", nullptr}}));
}

TEST(CollectivesRequest, Peers_AreTheLastBackendAndOfFullWidth) {
  const Json request =
      CollectivesRequest(Collectives({"--backends", "ring", "--wire", "bf16", "--peers"}), "");
  ASSERT_EQ(request["backends"].size(), 2u);
  EXPECT_EQ(request["backends"][0]["is_peer"], false);
  EXPECT_EQ(request["backends"][1]["is_peer"], true);
  EXPECT_EQ(request["backends"][1]["wires"], Json({{"fp32", 4.0}}));
}

TEST(CollectivesRequest, Tls_OnlyBackEndsWhoseConnectionsItEncryptsHaveIt) {
  const std::vector<std::string> backends = {"--backends", "ring,gloo", "--peers"};
  std::vector<std::string> args = backends;
  args.push_back("--tls");
  const Json request = CollectivesRequest(Collectives(args), "");
  EXPECT_EQ(request["tls"], true);
  ASSERT_EQ(request["backends"].size(), 3u);
  EXPECT_EQ(request["backends"][0]["tls"], true);
  EXPECT_EQ(request["backends"][1]["tls"], false);
  EXPECT_EQ(request["backends"][2]["tls"], false);
  const Json plain = CollectivesRequest(Collectives(backends), "");
  EXPECT_EQ(plain["tls"], false);
  EXPECT_EQ(plain["backends"][0]["tls"], false);
}

TEST(CollectivesRequest, BackEndsThatWereNotGiven_AreNotAskedFor) {
  const Json request = CollectivesRequest(Collectives({"--sizes", "4"}), "");
  for (const Json& backend : request["backends"]) EXPECT_EQ(backend["asked"], false);
}

}  // namespace
}  // namespace gradwire::bench_request_test
