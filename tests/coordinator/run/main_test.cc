// The program gradwire-coordinator, from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/session/session.h"
#include "gradwire/v1/status.grpc.pb.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/process.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::BusyPort;
using ::gradwire::testing::Process;
using ::gradwire::testing::ReadFile;
using ::gradwire::testing::TempDir;
using ::gradwire::testing::TestHello;
using ::gradwire::testing::UnusedAddress;
using ::testing::HasSubstr;

// A coordinator on a free port.
class CoordinatorProgram {
 public:
  explicit CoordinatorProgram(int world_size, const std::vector<std::string>& more = {})
      : process_(Process::Start("gradwire-coordinator", Arguments(world_size, more))) {
    EXPECT_TRUE(process_->WaitForOutput("coordinator listens on", absl::Seconds(10)).ok());
  }

  Process& process() { return *process_; }
  int ExitCode() { return process_->Wait(absl::Seconds(10)).value_or(-1); }

  std::string address() const {
    while (ReadFile(dir_.File("ports")).empty()) absl::SleepFor(absl::Milliseconds(1));
    const std::string text = ReadFile(dir_.File("ports"));
    return text.substr(5, text.find('\n') - 5);  // behind "grpc="
  }
  std::unique_ptr<Session> OpenSession(Session::OnAbort on_abort) {
    SessionOptions options;
    options.coordinator = address();
    return Session::Open(options, std::move(on_abort)).value();
  }

 private:
  std::vector<std::string> Arguments(int world_size, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"--listen",     "127.0.0.1:0",
                                          "--metrics",    "off",
                                          "--world-size", absl::StrCat(world_size),
                                          "--port-file",  dir_.File("ports")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  const TempDir dir_;
  std::unique_ptr<Process> process_;
};

TEST(CoordinatorMain, PortInUse_SaysSoAndExitsWith1) {
  const BusyPort port;
  auto process =
      Process::Start("gradwire-coordinator", {"--listen", port.address(), "--metrics", "off"});
  EXPECT_EQ(process->Wait(absl::Seconds(10)).value(), 1);
  EXPECT_THAT(process->err(), HasSubstr(absl::StrCat("cannot listen on ", port.address(),
                                                     ": address already in use")));
}

TEST(CoordinatorMain, Sigterm_ExitsWith143AndEmptyStdout) {
  CoordinatorProgram coordinator(2);
  coordinator.process().Signal(SIGTERM);
  EXPECT_EQ(coordinator.ExitCode(), 128 + SIGTERM);
  EXPECT_EQ(coordinator.process().out(), "");
  EXPECT_THAT(coordinator.process().err(), HasSubstr("the coordinator was stopped by SIGTERM"));
}

TEST(CoordinatorMain, Sigint_MidRun_AbortsTheWorkerWithin2Seconds) {
  CoordinatorProgram coordinator(1);
  std::promise<absl::Status> end;
  auto session =
      coordinator.OpenSession([&end](const absl::Status& status) { end.set_value(status); });
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  const absl::Time signalled = SteadyNow();
  coordinator.process().Signal(SIGINT);
  EXPECT_EQ(coordinator.ExitCode(), 128 + SIGINT);
  EXPECT_EQ(end.get_future().get(),
            absl::AbortedError("the coordinator was stopped by SIGINT (Ctrl-C)"));
  EXPECT_LT(SteadyNow() - signalled, absl::Seconds(2));
}

TEST(CoordinatorMain, Sigterm_AggregatorLooksForTheCoordinator_ExitsWith143AtOnce) {
  auto process =
      Process::Start("gradwire-coordinator", {"--aggregate-only", "--coordinator", UnusedAddress(),
                                              "--listen", "127.0.0.1:0", "--metrics", "off"});
  ASSERT_TRUE(process->WaitForOutput("does not answer", absl::Seconds(10)).ok());
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Wait(absl::Seconds(10)).value_or(-1), 128 + SIGTERM);
  EXPECT_THAT(process->err(), HasSubstr("the aggregator was stopped by SIGTERM"));
}

TEST(CoordinatorMain, AllFinished_ExitsWith0) {
  CoordinatorProgram coordinator(1);
  auto session = coordinator.OpenSession([](const absl::Status&) {});
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  ASSERT_TRUE(session->Leave(true, "").ok());
  EXPECT_EQ(coordinator.ExitCode(), 0);
}

TEST(CoordinatorMain, AllFinishedButFolderOfSummaryIsGone_SaysSoAndExitsWith1) {
  const TempDir dir;
  const std::string folder = dir.File("results");
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  CoordinatorProgram coordinator(1, {"--aggregation-summary", folder + "/summary.json"});
  auto session = coordinator.OpenSession([](const absl::Status&) {});
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(session->Leave(true, "").ok());
  EXPECT_EQ(coordinator.ExitCode(), 1);
  EXPECT_THAT(coordinator.process().err(),
              HasSubstr("cannot write " + folder + "/summary.json: no such file or directory"));
}

TEST(CoordinatorMain, WorkerLost_SaysWhyAndExitsWith1) {
  CoordinatorProgram coordinator(1);
  auto session = coordinator.OpenSession([](const absl::Status&) {});
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  session.reset();
  EXPECT_EQ(coordinator.ExitCode(), 1);
  EXPECT_THAT(coordinator.process().err(),
              HasSubstr("the run failed: rank 0 (10.10.1.2:1) was lost in step 0: its session "
                        "stream broke"));
}

TEST(CoordinatorMain, Stopped_ForLongerThanAChannelsSilence_EndsItsCalls) {
  CoordinatorProgram coordinator(1);
  const auto channel = MakeChannel(coordinator.address(), {}, "", /*silence=*/absl::Seconds(6));
  ASSERT_TRUE(WaitConnected(channel.get(), "it", [] { return absl::OkStatus(); }).ok());
  coordinator.process().Signal(SIGSTOP);
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(9)));
  v1::StatusReply reply;
  const grpc::Status status = v1::Status::NewStub(channel)->Get(&context, {}, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
}

TEST(CoordinatorMain, Killed_MidRun_IsUnavailableToTheWorker) {
  CoordinatorProgram coordinator(1);
  std::promise<absl::Status> end;
  auto session =
      coordinator.OpenSession([&end](const absl::Status& status) { end.set_value(status); });
  ASSERT_TRUE(session->Join(TestHello(1)).ok());
  coordinator.process().Signal(SIGKILL);
  EXPECT_EQ(end.get_future().get().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gradwire
