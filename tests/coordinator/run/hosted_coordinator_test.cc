#include "coordinator/run/hosted_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/session/connect.h"
#include "common/session/session.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(HostedCoordinator, NobodyListens_ServesThere) {
  const std::string address = testing::UnusedAddress();
  const auto hosted = HostedCoordinator::StartUnlessServed({address, 2, "off"}, {});
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  ASSERT_NE(*hosted, nullptr);
  EXPECT_EQ((*hosted)->address(), address);
  EXPECT_EQ((*hosted)->metrics_address(), "");
  EXPECT_EQ(Probe(address).value(), AddressUse::kServed);
}

TEST(HostedCoordinator, SomebodyListens_Null) {
  const testing::BusyPort port;
  EXPECT_EQ(HostedCoordinator::StartUnlessServed({port.address(), 2, "off"}, {}).value(), nullptr);
}

TEST(HostedCoordinator, AddressOfAnotherHost_Null) {
  EXPECT_EQ(HostedCoordinator::StartUnlessServed({"no-such-host.invalid:1", 2, "off"}, {}).value(),
            nullptr);
}

TEST(HostedCoordinator, UsualMetricsTwice_TheSecondHasAnotherPort) {
  const auto first = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, ""}, {});
  const auto second = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, ""}, {});
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_NE((*first)->metrics_address(), (*second)->metrics_address());
  EXPECT_NE((*second)->metrics_address(), "");
}

TEST(HostedCoordinator, MetricsGivenAndTaken_FailedPrecondition) {
  const testing::BusyPort port;
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, port.address()}, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(hosted.status())) << hosted.status();
}

// It must not listen at all addresses of this host instead.
TEST(HostedCoordinator, NumericAddressOfAnotherHost_Null) {
  EXPECT_EQ(HostedCoordinator::StartUnlessServed({"10.255.255.254:0", 1, "off"}, {}).value(),
            nullptr);
}

TEST(HostedCoordinator, PublicAddress_IsRefusedUnlessInsecure) {
  SecurityOptions insecure;
  insecure.insecure = true;
  const auto error_of = [](const HostedCoordinator::Options& options) {
    return std::string(HostedCoordinator::StartUnlessServed(options, {}).status().message());
  };
  EXPECT_THAT(error_of({"8.8.8.8:0", 1, "off"}), HasSubstr("--insecure"));
  EXPECT_EQ(error_of({"8.8.8.8:0", 1, "off", insecure}), "");
  EXPECT_THAT(error_of({"127.0.0.1:0", 1, "8.8.8.8:0"}), HasSubstr("--metrics: got 8.8.8.8:0"));
}

TEST(HostedCoordinator, CertificatesOfTheWorker_AreItsOwn) {
  SecurityOptions security;
  security.tls_cert = security.tls_key = security.tls_ca = "/no/such";
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "off", security}, {});
  EXPECT_THAT(std::string(hosted.status().message()), HasSubstr("/no/such"));
}

TEST(HostedCoordinator, PagesWithTheTokenOfTheWorker_RequireIt) {
  const testing::TempDir dir;
  SecurityOptions security;
  security.token_file = dir.File("token");
  testing::WriteFile(security.token_file, "the-token-of-this-run\n");
  const auto hosted = HostedCoordinator::StartUnlessServed(
      {"127.0.0.1:0", 1, "127.0.0.1:0", security}, {{"GRADWIRE_HTTP_TOKEN", "true"}});
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  EXPECT_EQ(testing::HttpGet((*hosted)->metrics_address(), "/metrics").value().code, 401);
}

TEST(HostedCoordinator, WrongOptionInTheEnvironment_InvalidArgument) {
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "off"},
                                                           {{"GRADWIRE_LEASE_SECONDS", "soon"}});
  EXPECT_THAT(std::string(hosted.status().message()), HasSubstr("GRADWIRE_LEASE_SECONDS"));
}

TEST(HostedCoordinator, Stop_EndsTheWait) {
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "off"}, {});
  ASSERT_TRUE(hosted.ok());
  (*hosted)->Stop("the test is over");
  (*hosted)->AwaitEnd();
}

TEST(HostedCoordinator, AwaitEnd_Lingers_UntilStopped) {
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "127.0.0.1:0"},
                                                           {{"GRADWIRE_LINGER_SECONDS", "3600"}});
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  SessionOptions options;
  options.coordinator = (*hosted)->address();
  const auto session = Session::Open(options, [](const absl::Status&) {}).value();
  ASSERT_TRUE(session->Join(testing::TestHello(1)).ok());
  ASSERT_TRUE(session->Leave(true, "").ok());
  std::future<void> ended = std::async(std::launch::async, [&hosted] { (*hosted)->AwaitEnd(); });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  (*hosted)->Stop("the test is over");
  ended.get();
}

TEST(HostedCoordinator, AwaitEnd_PageIsOpen_WaitsUntilItHasSeenTheEnd) {
  const auto hosted =
      HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "127.0.0.1:0"}, {}).value();
  EXPECT_TRUE(testing::HttpGet(hosted->metrics_address(), "/status.json").ok());
  SessionOptions options;
  options.coordinator = hosted->address();
  const auto session = Session::Open(options, [](const absl::Status&) {}).value();
  ASSERT_TRUE(session->Join(testing::TestHello(1)).ok());
  ASSERT_TRUE(session->Leave(true, "").ok());
  std::future<void> ended = std::async(std::launch::async, [&hosted] { hosted->AwaitEnd(); });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  EXPECT_THAT(testing::HttpGet(hosted->metrics_address(), "/status.json").value().body,
              HasSubstr("finished"));
  ended.get();
}

TEST(HostedCoordinator, EachOfItsOptions_IsReadFromTheEnvironment) {
  for (const char* name :
       {"AGGREGATORS", "CHECKPOINT_EVERY", "CHUNK_KIB", "HTTP_TOKEN", "KEEP_CHECKPOINTS",
        "LEASE_SECONDS", "LINGER_SECONDS", "MIN_LEASE_SECONDS", "MIN_WORKERS", "ON_LOSS",
        "PAUSE_TIMEOUT", "RESUME", "WORKERS", "RENDEZVOUS_TIMEOUT_SECONDS"}) {
    const std::string variable = absl::StrCat("GRADWIRE_", name);
    const auto hosted =
        HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "off"}, {{variable, "?"}});
    EXPECT_THAT(std::string(hosted.status().message()), HasSubstr(variable + ": got '?'"));
  }
  for (const char* name : {"PORT_FILE", "RUN_DIR"}) {
    const auto hosted = HostedCoordinator::StartUnlessServed(
        {"127.0.0.1:0", 1, "off"}, {{absl::StrCat("GRADWIRE_", name), "/dev/null/there"}});
    EXPECT_THAT(std::string(hosted.status().message()), HasSubstr("/dev/null/there")) << name;
  }
}

TEST(HostedCoordinator, HttpNamesInTheEnvironment_AreAccepted) {
  const auto hosted = HostedCoordinator::StartUnlessServed(
      {"127.0.0.1:0", 1, "127.0.0.1:0"}, {{"GRADWIRE_HTTP_NAMES", "runs.example.com"}});
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  const auto answer = testing::Exchange((*hosted)->metrics_address(),
                                        "GET /healthz HTTP/1.1\r\nHost: runs.example.com\r\n\r\n",
                                        /*half_close=*/false);
  EXPECT_THAT(answer.value(), HasSubstr(" 200 "));
}

TEST(HostedCoordinator, OptionsOfTheWorker_AreNotItsOwn) {
  const auto hosted = HostedCoordinator::StartUnlessServed(
      {"127.0.0.1:0", 1, "off"},
      {{"GRADWIRE_LISTEN", "?"}, {"GRADWIRE_METRICS", "?"}, {"GRADWIRE_CONFIG", "/no/such"}});
  EXPECT_TRUE(hosted.ok()) << hosted.status();
}

// Of two workers, the second is lost. Returns whether the first is told to go on.
bool GoesOn(const Environment& environment) {
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 2, "off"}, environment);
  EXPECT_TRUE(hosted.ok()) << hosted.status();
  std::promise<bool> told;
  std::future<bool> goes_on = told.get_future();
  std::unique_ptr<Session> sessions[2];
  std::future<bool> joined[2];
  for (int rank : {0, 1}) {
    SessionOptions options;
    options.coordinator = (*hosted)->address();
    Session::Listener listener;
    if (rank == 0) listener.on_new_view = [&told](const View&) { told.set_value(true); };
    const auto on_abort = [&told, rank](const absl::Status&) {
      if (rank == 0) told.set_value(false);
    };
    sessions[rank] = Session::Open(options, on_abort, std::move(listener)).value();
    joined[rank] = std::async(std::launch::async, [&sessions, rank] {
      return sessions[rank]->Join(testing::TestHello(rank + 1, {rank})).ok();
    });
  }
  for (std::future<bool>& worker : joined) EXPECT_TRUE(worker.get());
  sessions[1].reset();
  const bool answer = goes_on.get();
  sessions[0]->Cancel();
  return answer;
}

TEST(HostedCoordinator, WorkerIsLost_RunEndsUnlessToldOtherwise) {
  EXPECT_FALSE(GoesOn({}));
  EXPECT_TRUE(GoesOn({{"GRADWIRE_ON_LOSS", "recover"}}));
}

}  // namespace
}  // namespace gradwire
