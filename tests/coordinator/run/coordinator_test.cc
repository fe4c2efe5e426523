#include "coordinator/run/coordinator.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/session/session.h"
#include "coordinator/pages/run_pages.h"
#include "gradwire/v1/status.grpc.pb.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::BusyPort;
using ::gradwire::testing::HttpGet;
using ::gradwire::testing::HttpReply;
using ::gradwire::testing::ReadFile;
using ::gradwire::testing::TempDir;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;
using ::testing::Not;

CoordinatorOptions Options() {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "off";
  options.on_loss = kStop;
  return options;
}

std::unique_ptr<Session> OpenSession(const Coordinator& coordinator) {
  SessionOptions options;
  options.coordinator = coordinator.address();
  return Session::Open(options, [](const absl::Status&) {}).value();
}

TEST(CoordinatorStart, PortInUse_SaysSo) {
  const BusyPort port;
  CoordinatorOptions options = Options();
  options.listen = port.address();
  EXPECT_EQ(Coordinator::Start(options).status(),
            absl::FailedPreconditionError(
                absl::StrCat("cannot listen on ", port.address(), ": address already in use")));
}

TEST(CoordinatorStart, PortOfAnotherCoordinator_SaysSo) {
  const auto first = Coordinator::Start(Options()).value();
  CoordinatorOptions options = Options();
  options.listen = first->address();
  EXPECT_EQ(Coordinator::Start(options).status(),
            absl::FailedPreconditionError(
                absl::StrCat("cannot listen on ", first->address(), ": address already in use")));
}

TEST(CoordinatorStart, AddressOfAnotherHost_SaysSo) {
  CoordinatorOptions options = Options();
  options.listen = "192.0.2.1:0";
  EXPECT_EQ(Coordinator::Start(options).status(),
            absl::FailedPreconditionError(
                "cannot listen on 192.0.2.1:0: cannot assign requested address"));
}

TEST(CoordinatorStart, BadAddress_IsRefused) {
  CoordinatorOptions options = Options();
  options.listen = "29400";
  EXPECT_EQ(Coordinator::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CoordinatorStart, NoWorkers_IsRefused) {
  CoordinatorOptions options = Options();
  options.world_size = 0;
  EXPECT_EQ(Coordinator::Start(options).status(),
            absl::InvalidArgumentError("world size: got 0, expected 1 or more"));
}

TEST(CoordinatorStart, MoreWorkersNeededThanThereAre_IsRefused) {
  CoordinatorOptions options = Options();
  options.world_size = 4;
  options.workers = 2;
  options.min_workers = 3;
  EXPECT_EQ(
      Coordinator::Start(options).status(),
      absl::InvalidArgumentError("min-workers: got 3, expected at most the number of workers, 2"));
}

TEST(CoordinatorStart, NoChunks_IsRefused) {
  CoordinatorOptions options = Options();
  options.chunk_kib = 0;
  EXPECT_EQ(Coordinator::Start(options).status(),
            absl::InvalidArgumentError("chunk size: got 0 KiB, expected 1 to 4096"));
}

TEST(CoordinatorStart, LargestChunksAndAllWorkersNeeded_IsTaken) {
  CoordinatorOptions options = Options();
  options.world_size = 2;
  options.workers = 2;
  options.min_workers = 2;
  options.chunk_kib = 4096;
  EXPECT_EQ(Coordinator::Start(options).status(), absl::OkStatus());
}

// What the coordinator logs when it starts, with a pause timeout.
std::string LogOfStart(const std::string& on_loss, int min_workers) {
  CoordinatorOptions options = Options();
  options.world_size = 2;
  options.on_loss = on_loss;
  options.min_workers = min_workers;
  options.pause_timeout_seconds = 5;
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(Coordinator::Start(options).ok());
  return ::testing::internal::GetCapturedStdout();
}

TEST(CoordinatorStart, PauseTimeoutOfARunThatNeverWaits_SaysWhyItHasNoEffect) {
  EXPECT_THAT(LogOfStart(kRecover, 1),
              HasSubstr("--pause-timeout has no effect: the run continues with one worker "
                        "(--min-workers 1)"));
  EXPECT_THAT(LogOfStart(kStop, 2), HasSubstr("--pause-timeout has no effect: the run ends after a "
                                              "loss (--on-loss stop)"));
  EXPECT_THAT(LogOfStart(kRecover, 2), Not(HasSubstr("has no effect")));
}

TEST(CoordinatorStart, MetricsPortInUse_SaysSo) {
  const BusyPort port;
  CoordinatorOptions options = Options();
  options.metrics = port.address();
  const absl::Status status = Coordinator::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("cannot serve metrics on ", port.address())));
}

TEST(CoordinatorStart, PortFile_HasTheBoundAddresses) {
  const TempDir dir;
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  options.port_file = dir.File("ports");
  const auto coordinator = Coordinator::Start(options).value();
  EXPECT_EQ(ReadFile(options.port_file), absl::StrCat("grpc=", coordinator->address(), "\nmetrics=",
                                                      coordinator->metrics_address(), "\n"));
}

TEST(CoordinatorStart, PortFileOfOneWithoutMetrics_HasNoLineOfThem) {
  const TempDir dir;
  CoordinatorOptions options = Options();
  options.port_file = dir.File("ports");
  const auto coordinator = Coordinator::Start(options).value();
  EXPECT_EQ(ReadFile(options.port_file), absl::StrCat("grpc=", coordinator->address(), "\n"));
}

TEST(CoordinatorStart, PortFileInNoFolder_SaysSo) {
  const TempDir dir;
  CoordinatorOptions options = Options();
  options.port_file = dir.File("no/ports");
  EXPECT_EQ(Coordinator::Start(options).status(),
            absl::FailedPreconditionError(absl::StrCat("cannot write port file ", options.port_file,
                                                       ": no such file or directory")));
}

TEST(CoordinatorStatus, OverGrpc_TellsProgramAndState) {
  const auto coordinator = Coordinator::Start(Options()).value();
  auto stub = v1::Status::NewStub(
      grpc::CreateChannel(coordinator->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::StatusReply reply;
  ASSERT_TRUE(stub->Get(&context, {}, &reply).ok());
  EXPECT_EQ(reply.program(), "gradwire-coordinator");
  EXPECT_EQ(reply.version(), GRADWIRE_VERSION);
  EXPECT_EQ(reply.state(), "waiting");
  EXPECT_EQ(reply.reason(), "0 of 1 workers are present");
}

// Answer of a unary method that takes an empty message, as bytes.
std::string Call(const Coordinator& coordinator, const std::string& method) {
  grpc::GenericStub stub(
      grpc::CreateChannel(coordinator.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice empty;
  auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  grpc::Slice slice;
  if (!status.ok() || !reply.DumpToSingleSlice(&slice).ok()) return status.error_message();
  return std::string(slice.begin(), slice.end());
}

TEST(CoordinatorHealth, OverGrpc_IsServing) {
  const auto coordinator = Coordinator::Start(Options()).value();
  // HealthCheckResponse.status = SERVING: field 1, value 1.
  EXPECT_EQ(Call(*coordinator, "/grpc.health.v1.Health/Check"), "\x08\x01");
}

TEST(CoordinatorReady, WorkersMissing_IsNotReady) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  const auto coordinator = Coordinator::Start(options).value();
  EXPECT_EQ(HttpGet(coordinator->metrics_address(), "/readyz").value().code, 503);
}

TEST(CoordinatorReady, AllWorkersThere_IsReady) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  const auto coordinator = Coordinator::Start(options).value();
  const auto session = OpenSession(*coordinator);
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  EXPECT_EQ(HttpGet(coordinator->metrics_address(), "/readyz").value().code, 200);
  EXPECT_THAT(HttpGet(coordinator->metrics_address(), "/metrics").value().body,
              HasSubstr("gradwire_workers 1"));
}

TEST(CoordinatorPages, Root_IsTheLivePage) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  const auto coordinator = Coordinator::Start(options).value();
  const HttpReply page = HttpGet(coordinator->metrics_address(), "/").value();
  EXPECT_EQ(page.code, 200);
  EXPECT_EQ(page.body, FindWebAsset("")->body);
}

TEST(CoordinatorPages, Assets_AreServedByName) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  const auto coordinator = Coordinator::Start(options).value();
  const HttpReply script = HttpGet(coordinator->metrics_address(), "/assets/page.js").value();
  EXPECT_EQ(script.code, 200);
  EXPECT_EQ(script.body, FindWebAsset("page.js")->body);
  EXPECT_EQ(HttpGet(coordinator->metrics_address(), "/assets/").value().code, 404);
  EXPECT_EQ(HttpGet(coordinator->metrics_address(), "/assets/nothing.js").value().code, 404);
}

TEST(CoordinatorWait, AllFinished_IsOk) {
  const auto coordinator = Coordinator::Start(Options()).value();
  const auto session = OpenSession(*coordinator);
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  ASSERT_TRUE(session->Leave(true, "").ok());
  EXPECT_EQ(coordinator->Wait(), absl::OkStatus());
}

TEST(CoordinatorWait, WorkerLost_GivesTheReason) {
  const auto coordinator = Coordinator::Start(Options()).value();
  auto session = OpenSession(*coordinator);
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  session.reset();
  EXPECT_EQ(coordinator->Wait(), absl::AbortedError("rank 0 (10.10.1.2:1) was lost in step 0: its "
                                                    "session stream broke"));
}

TEST(CoordinatorWait, WorkersDoNotComeInTime_SaysHowLongItWaited) {
  CoordinatorOptions options = Options();
  options.rendezvous_timeout_seconds = 0.125;
  const auto coordinator = Coordinator::Start(options).value();
  std::future<absl::Status> end =
      std::async(std::launch::async, [&coordinator] { return coordinator->Wait(); });
  EXPECT_EQ(end.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  coordinator->Stop("the test ends");
  EXPECT_EQ(end.get(),
            absl::DeadlineExceededError("0 of 1 workers came within 0.125 s; missing rank 0"));
}

TEST(CoordinatorLinger, NotAskedFor_ReturnsAtOnce) {
  const auto coordinator = Coordinator::Start(Options()).value();
  coordinator->Linger();
}

TEST(CoordinatorLinger, RunIsOver_StillServesMetricsUntilStopped) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  options.linger_seconds = 3600;
  const auto coordinator = Coordinator::Start(options).value();
  auto session = OpenSession(*coordinator);
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  session.reset();
  EXPECT_FALSE(coordinator->Wait().ok());
  std::thread lingering([&coordinator] { coordinator->Linger(); });
  EXPECT_THAT(HttpGet(coordinator->metrics_address(), "/metrics").value().body,
              HasSubstr("gradwire_lost_workers_total 1"));
  coordinator->Stop("stopped by the test");
  lingering.join();
}

TEST(CoordinatorView, OptionsOfTheRun_AreInIt) {
  const TempDir dir;
  CoordinatorOptions options = Options();
  options.chunk_kib = 3;
  options.run_dir = dir.File("run");
  options.checkpoint_every = 7;
  const auto coordinator = Coordinator::Start(options).value();
  const auto session = OpenSession(*coordinator);
  const absl::StatusOr<View> view = session->Join(TestHello(1));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->chunk_bytes, 3072u);
  EXPECT_TRUE(view->keeps_state);
  EXPECT_TRUE(view->records);
  EXPECT_EQ(view->checkpoint_every, 7u);
}

TEST(CoordinatorView, RunWithoutAFolder_KeepsAndRecordsNothing) {
  const auto coordinator = Coordinator::Start(Options()).value();
  const auto session = OpenSession(*coordinator);
  const absl::StatusOr<View> view = session->Join(TestHello(1));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->chunk_bytes, uint64_t{256} << 10);
  EXPECT_FALSE(view->keeps_state);
  EXPECT_FALSE(view->records);
}

TEST(CoordinatorStop, Waiting_EndsWait) {
  const auto coordinator = Coordinator::Start(Options()).value();
  coordinator->Stop("stopped by the test");
  EXPECT_EQ(coordinator->Wait(), absl::AbortedError("stopped by the test"));
}

TEST(CoordinatorPages, Queries_AreJudged) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  const auto coordinator = Coordinator::Start(options).value();
  const auto get = [&coordinator](absl::string_view path) {
    return HttpGet(coordinator->metrics_address(), path).value();
  };
  EXPECT_EQ(get("/history.json?points=0").code, 400);
  EXPECT_EQ(get("/history.json?points=0").body,
            "points: got '0', expected a number of 1 or more\n");
  EXPECT_EQ(get("/history.json?points=20").code, 200);
  EXPECT_EQ(get("/metrics?run=00").code, 404);
  EXPECT_EQ(get("/metrics").code, 200);
  EXPECT_THAT(get("/sd").body, HasSubstr(coordinator->metrics_address()));
}

// Prometheus may reach it at another address than the one that it listens on.
TEST(CoordinatorPages, Targets_AreAskedForAtAnotherAddress_HaveThatOne) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  const auto coordinator = Coordinator::Start(options).value();
  const std::string request = "GET /sd HTTP/1.1\r\nHost: localhost:5555\r\n\r\n";
  EXPECT_THAT(testing::Exchange(coordinator->metrics_address(), request, false).value(),
              HasSubstr("[\"localhost:5555\"]"));
}

TEST(CoordinatorPages, HttpNames_EachIsAccepted) {
  CoordinatorOptions options = Options();
  options.metrics = "127.0.0.1:0";
  options.http_names = "runs.example.com, more.example.com";
  const auto coordinator = Coordinator::Start(options).value();
  const auto code_for = [&coordinator](absl::string_view host) {
    const std::string request = absl::StrCat("GET /healthz HTTP/1.1\r\nHost: ", host, "\r\n\r\n");
    return testing::Exchange(coordinator->metrics_address(), request, false)->substr(9, 3);
  };
  EXPECT_EQ(code_for("runs.example.com"), "200");
  EXPECT_EQ(code_for("more.example.com:9400"), "200");
  EXPECT_EQ(code_for("other.example.com"), "421");
}

}  // namespace
}  // namespace gradwire
