#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "common/wire/protocol.h"
#include "gradwire/v1/membership.grpc.pb.h"
#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using testing::TestHello;

// A coordinator whose clock is an hour ahead, and which only answers Heartbeats and takes a
// Suspect.
class AheadService final : public v1::Membership::Service {
 public:
  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    uint64_t written = 0;
    while (stream->Read(&message)) {
      if (message.has_suspect()) suspect_.set_value(message.suspect());
      if (!message.has_heartbeat()) continue;
      v1::CoordinatorMessage answer;
      answer.mutable_echo()->set_sent(message.heartbeat().sent());
      answer.mutable_echo()->set_received(message.heartbeat().sent() + 3600);
      SetChecksum(written++, &answer);
      stream->Write(answer);
    }
    return grpc::Status::OK;
  }

  std::future<v1::Suspect> suspect() { return suspect_.get_future(); }

 private:
  std::promise<v1::Suspect> suspect_;
};

// A session that joins a coordinator which is ahead, and knows how far.
class SessionClockOffset : public ::testing::Test {
 protected:
  SessionClockOffset() : server_(StartGrpcServer("127.0.0.1:0", {&service_}).value()) {
    SessionOptions options;
    options.coordinator = server_.address;
    options.heartbeat_interval = absl::Milliseconds(5);
    session_ = Session::Open(options, [](const absl::Status&) {}).value();
    view_ = std::async(std::launch::async, [this] { return session_->Join(TestHello(1)); });
    const absl::Time deadline = SteadyNow() + absl::Seconds(20);
    while (session_->clock_offset() == absl::ZeroDuration() && SteadyNow() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  ~SessionClockOffset() override {
    session_->Cancel();
    EXPECT_FALSE(view_.get().ok());
  }

  AheadService service_;
  const GrpcServer server_;
  std::unique_ptr<Session> session_;
  std::future<absl::StatusOr<View>> view_;
};

TEST_F(SessionClockOffset, CoordinatorIsAnHourAhead_TellsSo) {
  // Half of the round trip is between what is received and what is sent.
  EXPECT_LE(session_->clock_offset(), absl::Hours(1));
  EXPECT_GT(session_->clock_offset(), absl::Hours(1) - absl::Seconds(20));
}

// So that it can be compared with what workers of other hosts say.
TEST_F(SessionClockOffset, ReportSuspect_CoordinatorIsAnHourAhead_TimeIsOfItsClock) {
  auto suspect = service_.suspect();
  const double begun = UnixSeconds(absl::Now());
  session_->ReportSuspect(Session::kNobody, Step(3), absl::DeadlineExceededError("late"),
                          SteadyNow());
  ASSERT_EQ(suspect.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_NEAR(suspect.get().at(), begun + 3600, 30);
}

// The coordinator tells a worker that hung up from one that is silent, and a late one from both.
TEST_F(SessionClockOffset, ReportSuspect_WhoseCallBrokeOff_SaysSoAndWhereItWas) {
  auto suspect = service_.suspect();
  session_->ReportSuspect(Incarnation(7), Step(3), absl::AbortedError("rank 1 hung up"),
                          SteadyNow(), Generation(5));
  ASSERT_EQ(suspect.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const v1::Suspect told = suspect.get();
  EXPECT_EQ(told.incarnation(), 7u);
  EXPECT_EQ(told.step(), 3u);
  EXPECT_EQ(told.cause(), "rank 1 hung up");
  EXPECT_TRUE(told.broke_off());
  EXPECT_FALSE(told.late());
  EXPECT_EQ(told.generation(), 5u);
}

TEST_F(SessionClockOffset, ReportSuspect_LateStep_SaysSo) {
  auto suspect = service_.suspect();
  session_->ReportSuspect(Incarnation(7), Step(3), absl::DeadlineExceededError("late"),
                          SteadyNow());
  ASSERT_EQ(suspect.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const v1::Suspect told = suspect.get();
  EXPECT_TRUE(told.late());
  EXPECT_FALSE(told.broke_off());
}

TEST_F(SessionClockOffset, ReportSuspect_WhoCannotBeReached_IsNeitherLateNorBrokeOff) {
  auto suspect = service_.suspect();
  session_->ReportSuspect(Incarnation(7), Step(3), absl::UnavailableError("no route"), SteadyNow());
  ASSERT_EQ(suspect.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const v1::Suspect told = suspect.get();
  EXPECT_FALSE(told.late());
  EXPECT_FALSE(told.broke_off());
}

// The first echo says that the heartbeat was sent in ten minutes: the clock was set back meanwhile.
class SetBackService final : public v1::Membership::Service {
 public:
  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    uint64_t written = 0;
    while (stream->Read(&message)) {
      if (!message.has_heartbeat()) continue;
      v1::CoordinatorMessage answer;
      answer.mutable_echo()->set_sent(message.heartbeat().sent() + (written == 0 ? 600 : 0));
      answer.mutable_echo()->set_received(message.heartbeat().sent() + 3600);
      SetChecksum(written++, &answer);
      stream->Write(answer);
      if (written == 3) answered_.set_value();
    }
    return grpc::Status::OK;
  }

  std::future<void> answered() { return answered_.get_future(); }

 private:
  std::promise<void> answered_;
};

TEST(SessionClock, AnswerFromBeforeTheQuestion_SaysNothingOfTheClock) {
  SetBackService service;
  const GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
  SessionOptions options;
  options.coordinator = server.address;
  options.heartbeat_interval = absl::Milliseconds(5);
  const auto session = Session::Open(options, [](const absl::Status&) {}).value();
  auto view = std::async(std::launch::async, [&] { return session->Join(TestHello(1)); });
  EXPECT_EQ(service.answered().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const absl::Time deadline = SteadyNow() + absl::Seconds(20);
  while (session->clock_offset() < absl::Minutes(59) && SteadyNow() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GT(session->clock_offset(), absl::Minutes(59));
  EXPECT_LE(session->clock_offset(), absl::Hours(1));
  session->Cancel();
  EXPECT_FALSE(view.get().ok());
}

// Answers the first heartbeat at once, says of the second that it was sent ten minutes ago, and
// closes the session.
class SlowerAnswerService final : public v1::Membership::Service {
 public:
  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    uint64_t written = 0;
    while (written < 2 && stream->Read(&message)) {
      if (!message.has_heartbeat()) continue;
      const double sent = message.heartbeat().sent();
      v1::CoordinatorMessage answer;
      answer.mutable_echo()->set_sent(written == 0 ? sent : sent - 600);
      answer.mutable_echo()->set_received(written == 0 ? sent + 3600 : sent + 7200);
      SetChecksum(written++, &answer);
      stream->Write(answer);
    }
    return grpc::Status::OK;
  }
};

TEST(SessionClock, AnswerThatTookLonger_SaysNothingOfTheClock) {
  SlowerAnswerService service;
  const GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
  SessionOptions options;
  options.coordinator = server.address;
  options.heartbeat_interval = absl::Milliseconds(5);
  const auto session = Session::Open(options, [](const absl::Status&) {}).value();
  const absl::Status closed = session->Join(TestHello(1)).status();  // after both answers
  EXPECT_EQ(closed.code(), absl::StatusCode::kUnavailable) << closed;
  EXPECT_LE(session->clock_offset(), absl::Hours(1));
  EXPECT_GT(session->clock_offset(), absl::Minutes(59));
}

// A coordinator that sends a View which comes broken.
class BrokenService final : public v1::Membership::Service {
 public:
  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::CoordinatorMessage message;
    message.mutable_view()->set_world_size(1);
    SetChecksum(0, &message);
    message.mutable_view()->set_world_size(3);
    stream->Write(message);
    v1::WorkerMessage unread;
    while (stream->Read(&unread)) {
    }
    return grpc::Status::OK;
  }
};

TEST(SessionJoin, BrokenView_IsALostCoordinator) {
  BrokenService service;
  const absl::StatusOr<GrpcServer> server = StartGrpcServer("127.0.0.1:0", {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  SessionOptions options;
  options.coordinator = server->address;
  const auto session = Session::Open(options, [](const absl::Status&) {});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->Join(TestHello(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(
                "message 0 of the session is corrupt, or an earlier one was lost: got checksum "),
            absl::string_view::npos)
      << status;
}

}  // namespace
}  // namespace gradwire
