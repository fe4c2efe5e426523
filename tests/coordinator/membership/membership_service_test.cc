#include "coordinator/membership/membership_service.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "common/wire/layout.h"
#include "common/wire/protocol.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::gradwire::testing::Exchange;
using ::gradwire::testing::TestHello;
using ::gradwire::testing::TestLayout;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A value that another thread sets once and this one waits for.
template <typename T>
class Slot {
 public:
  void Set(T value) { promise_.set_value(std::move(value)); }
  bool is_set() { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  // The test fails, rather than hangs, if nothing comes.
  T Get() {
    if (future_.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      ADD_FAILURE() << "nothing came within 20 s";
      return T();
    }
    return future_.get();
  }

 private:
  std::promise<T> promise_;
  std::shared_future<T> future_ = promise_.get_future().share();
};

// A session and what its on_abort got.
struct Worker {
  Worker(const std::string& coordinator, absl::Duration heartbeat_interval) {
    SessionOptions options;
    options.heartbeat_interval = heartbeat_interval;
    options.coordinator = coordinator;
    options.connect_timeout = absl::Seconds(10);
    auto opened = Session::Open(options, [this](const absl::Status& status) { end.Set(status); });
    EXPECT_TRUE(opened.ok()) << opened.status();
    session = *std::move(opened);
  }
  ~Worker() {
    if (session != nullptr) session->Cancel();
  }
  // Joins on a thread of its own.
  void Join(v1::Hello hello) {
    view = std::async(std::launch::async, [this, hello] { return session->Join(hello); });
  }

  Slot<absl::Status> end;
  std::unique_ptr<Session> session;
  std::future<absl::StatusOr<View>> view;
};

// A session whose messages the test writes itself.
class SpokenSession {
 public:
  explicit SpokenSession(const std::string& coordinator)
      : stub_(v1::Membership::NewStub(
            grpc::CreateChannel(coordinator, grpc::InsecureChannelCredentials()))),
        stream_(stub_->Session(&context_)) {}

  void Write(const v1::WorkerMessage& message) { stream_->Write(message); }
  // With rank 2, as the first message.
  void WriteHello() {
    v1::WorkerMessage message;
    *message.mutable_hello() = TestHello(2, {2});
    SetChecksum(0, &message);
    Write(message);
  }
  v1::CoordinatorMessage Read() {
    v1::CoordinatorMessage message;
    EXPECT_TRUE(stream_->Read(&message));
    return message;
  }
  void WritesDone() { stream_->WritesDone(); }
  // Reads to the end.
  grpc::Status Finish() {
    v1::CoordinatorMessage unread;
    while (stream_->Read(&unread)) {
    }
    return stream_->Finish();
  }

 private:
  std::unique_ptr<v1::Membership::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream_;
};

class MembershipServiceTest : public ::testing::Test, private RunListener {
 protected:
  explicit MembershipServiceTest(MembershipConfig config = Config()) : service_(config, this) {
    auto server = StartGrpcServer("127.0.0.1:0", {&service_});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~MembershipServiceTest() override {
    workers_.clear();
    server_.server->Shutdown();
  }

  static MembershipConfig Config() {
    MembershipConfig config;
    config.world_size = 3;
    return config;
  }

  Worker& AddWorker() {
    workers_.push_back(std::make_unique<Worker>(server_.address, heartbeat_interval_));
    return *workers_.back();
  }
  // Three workers with their views; ranks in order.
  void FormRun() {
    for (int rank = 0; rank < 3; ++rank) AddWorker().Join(TestHello(rank, {rank}));
    for (auto& worker : workers_) ASSERT_TRUE(worker->view.get().ok());
  }

  // Ranks 0 and 1 are workers, rank 2 is `spoken`.
  void FormRunWith(SpokenSession* spoken) {
    for (int rank = 0; rank < 2; ++rank) AddWorker().Join(TestHello(rank, {rank}));
    spoken->WriteHello();
    formed_.Get();
  }

  absl::Status On(const ::gradwire::FormRun& form) override {
    formed_.Set(form.view);
    absl::SleepFor(view_takes_);
    return view_verdict_;
  }
  void On(const AgreeLayout& agree) override { layout_.Set(agree.layout); }
  void On(const TakeStep& take) override {
    if (take.done.rank() == 2) done_.Set(take.done);
  }
  void On(const TellLoss& loss) override { lost_.Set(loss.ranks); }
  void On(const EnterStep& enter) override { step_.Set(enter.step); }
  void On(const EndRun& end) override {
    absl::SleepFor(end_takes_);
    over_.Set(end.status);
  }
  void On(const TellCost& cost) override { cost_.Set(cost.lost); }

  absl::Duration heartbeat_interval_ = absl::Seconds(1);
  absl::Status view_verdict_;
  // Of FormRun and EndRun, as while a slow disk records them.
  absl::Duration view_takes_, end_takes_;
  Slot<View> formed_;
  Slot<v1::StepDone> done_;  // rank 2's
  Slot<std::vector<Rank>> lost_;
  Slot<LostTime> cost_;
  Slot<LayoutId> layout_;
  Slot<Step> step_;
  Slot<absl::Status> over_;
  MembershipService service_;
  GrpcServer server_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// On a thread of its own.
std::future<absl::StatusOr<LayoutId>> Declare(Worker& worker, const v1::Layout& layout) {
  return std::async(std::launch::async,
                    [&worker, layout] { return worker.session->DeclareLayout(layout); });
}

absl::Status JoinError(Worker& worker, const v1::Hello& hello) {
  return worker.session->Join(hello).status();
}

// Workers estimate from it how far the clocks are apart.
TEST_F(MembershipServiceTest, Heartbeat_WithItsTime_IsEchoedWithThatOfTheCoordinator) {
  SpokenSession spoken(server_.address);
  spoken.WriteHello();
  v1::WorkerMessage heartbeat;
  heartbeat.mutable_heartbeat()->set_sent(17.5);
  SetChecksum(1, &heartbeat);
  const double begun = UnixSeconds(absl::Now());
  spoken.Write(heartbeat);
  const v1::CoordinatorMessage message = spoken.Read();
  ASSERT_TRUE(message.has_echo()) << message.ShortDebugString();
  EXPECT_EQ(message.echo().sent(), 17.5);
  EXPECT_GE(message.echo().received(), begun);
  EXPECT_LE(message.echo().received(), UnixSeconds(absl::Now()));
}

// It has room for 16 that are silent, and for two of each worker.
TEST_F(MembershipServiceTest, Session_TooManyAreSilent_TheOldestMakesRoom) {
  std::vector<std::unique_ptr<SpokenSession>> silent;
  const auto open = [&](int count) {
    for (int i = 0; i < count; ++i) {
      silent.push_back(std::make_unique<SpokenSession>(server_.address));
    }
    absl::SleepFor(absl::Milliseconds(100));  // until the service has them
  };
  open(21);
  open(1);
  open(1);
  FormRunWith(silent[21].get());
  EXPECT_EQ(formed_.Get().members.size(), 3u);
}

TEST_F(MembershipServiceTest, Join_AllWorkers_GetTheSameViewWithTheirRanks) {
  for (int rank = 0; rank < 3; ++rank) AddWorker().Join(TestHello(rank, {rank}));
  for (int rank = 0; rank < 3; ++rank) {
    const absl::StatusOr<View> view = workers_[rank]->view.get();
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_THAT(view->OwnRanks(), ElementsAre(Rank(rank)));
    EXPECT_EQ(view->generation, Generation(1));
    EXPECT_EQ(view->members.size(), 3);
    EXPECT_EQ(view->Carrier(Rank(2)).address, "10.10.1.2:2");
  }
  EXPECT_EQ(formed_.Get().world_size, 3);
}

TEST_F(MembershipServiceTest, Join_ViewThatCannotBeRecorded_EndsTheRunAndReachesNoWorker) {
  view_verdict_ = absl::AbortedError("the disk is full");
  for (int rank = 0; rank < 3; ++rank) AddWorker().Join(TestHello(rank, {rank}));
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->view.get().status(), absl::AbortedError("the disk is full"));
  }
  EXPECT_EQ(over_.Get(), absl::AbortedError("the disk is full"));
}

TEST_F(MembershipServiceTest, Join_DuplicateRank_IsRefusedAndTheRunStillForms) {
  AddWorker().Join(TestHello(0, {0}));
  // The second rank 0 is whoever comes later; ask until the first is in.
  while (service_.Status().ranks_size() < 1) std::this_thread::yield();
  EXPECT_EQ(JoinError(AddWorker(), TestHello(9, {0})),
            absl::AlreadyExistsError("rank 0 is taken by 10.10.1.2:0"));
  AddWorker().Join(TestHello(1));
  AddWorker().Join(TestHello(2));
  EXPECT_EQ(formed_.Get().members.size(), 3);
}

TEST_F(MembershipServiceTest, Join_OtherWorldSize_IsRefused) {
  v1::Hello hello = TestHello(0);
  hello.set_world_size(2);
  EXPECT_EQ(JoinError(AddWorker(), hello),
            absl::InvalidArgumentError("world size: got 2, expected 3 (coordinator)"));
}

TEST_F(MembershipServiceTest, Join_OtherProtocol_IsRefusedWithBothNumbers) {
  SpokenSession spoken(server_.address);
  v1::WorkerMessage message;
  message.mutable_hello()->set_protocol(1);
  spoken.Write(message);
  EXPECT_THAT(spoken.Finish().error_message(), HasSubstr("got protocol 1, expected 9 ("));
}

TEST_F(MembershipServiceTest, DeclareLayout_AllTheSame_AreNumberedInOrder) {
  FormRun();
  std::vector<std::future<absl::StatusOr<LayoutId>>> ids;
  for (auto& worker : workers_) ids.push_back(Declare(*worker, TestLayout()));
  for (auto& id : ids) EXPECT_EQ(*id.get(), LayoutId(0));
  EXPECT_EQ(layout_.Get(), LayoutId(0));
}

TEST_F(MembershipServiceTest, DeclareLayout_Different_TellsBothSidesWhatDiffers) {
  FormRun();
  auto first = Declare(*workers_[0], TestLayout());
  v1::Layout other = TestLayout();
  other.mutable_tensors(0)->set_name("fc2.weight");
  // Whichever comes first fixes the layout; both are told of the other.
  const absl::Status status = Declare(*workers_[1], other).get().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("layout 0: tensor 0: got 'fc"));
  EXPECT_THAT(std::string(first.get().status().message()),
              HasSubstr("layout 0: tensor 0: got 'fc"));
}

TEST_F(MembershipServiceTest,
       DeclareLayout_AnotherDeclaresNone_DeadlineExceededSaysWhatWasAwaited) {
  FormRun();
  Session& session = *workers_[0]->session;
  const absl::Status late = session.DeclareLayout(TestLayout(), absl::Milliseconds(50)).status();
  EXPECT_EQ(late, absl::DeadlineExceededError(
                      absl::StrCat("coordinator ", server_.address,
                                   " did not say within 0.05 s that all workers have declared "
                                   "layout 0")));
  auto others =
      std::make_pair(Declare(*workers_[1], TestLayout()), Declare(*workers_[2], TestLayout()));
  EXPECT_EQ(*session.AwaitLayout(LayoutId(0), absl::Seconds(20)), LayoutId(0));
  EXPECT_TRUE(others.first.get().ok() && others.second.get().ok());
}

TEST_F(MembershipServiceTest, Cancel_WhileDeclaring_EndsTheWait) {
  FormRun();
  auto declared = Declare(*workers_[0], TestLayout());
  EXPECT_EQ(declared.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  workers_[0]->session->Cancel();
  EXPECT_EQ(declared.get().status(), absl::CancelledError("the session was cancelled"));
}

TEST_F(MembershipServiceTest, Join_OtherSetting_NamesTheSetting) {
  AddWorker().Join(TestHello(0, {0}));
  while (service_.Status().ranks_size() < 1) std::this_thread::yield();
  v1::Hello hello = TestHello(1);
  (*hello.mutable_settings())["lr"] = "0.2";
  EXPECT_EQ(JoinError(AddWorker(), hello),
            absl::InvalidArgumentError("setting 'lr': got 0.2, expected 0.1 (rank 0)"));
}

TEST_F(MembershipServiceTest, Cancel_WhileJoining_EndsJoin) {
  Worker& worker = AddWorker();
  worker.Join(TestHello(0));
  while (service_.Status().ranks_size() < 1) std::this_thread::yield();
  worker.session->Cancel();
  EXPECT_EQ(worker.view.get().status(), absl::CancelledError("the session was cancelled"));
  EXPECT_FALSE(worker.end.is_set());
}

TEST_F(MembershipServiceTest, Cancel_WhileJoining_FreesTheRank) {
  Worker& worker = AddWorker();
  worker.Join(TestHello(0, {0}));
  while (service_.Status().ranks_size() < 1) std::this_thread::yield();
  worker.session->Cancel();
  while (service_.Status().ranks_size() > 0) std::this_thread::yield();
  AddWorker().Join(TestHello(5, {0}));
  while (service_.Status().ranks_size() < 1) std::this_thread::yield();
}

TEST_F(MembershipServiceTest, Leave_AllFinished_EndsTheRunWell) {
  FormRun();
  for (auto& worker : workers_) EXPECT_EQ(worker->session->Leave(true, ""), absl::OkStatus());
  EXPECT_EQ(over_.Get(), absl::OkStatus());
  for (auto& worker : workers_) EXPECT_FALSE(worker->end.is_set());
}

// The last worker's message ends the run, which then takes longer than any grace.
TEST_F(MembershipServiceTest, Leave_EndIsRecordedSlowly_EachWorkerGetsItsConfirmation) {
  end_takes_ = absl::Seconds(3);
  FormRun();
  for (auto& worker : workers_) EXPECT_EQ(worker->session->Leave(true, ""), absl::OkStatus());
  EXPECT_EQ(over_.Get(), absl::OkStatus());
}

TEST_F(MembershipServiceTest, Leave_NotFinished_AbortsTheOthersWithTheReason) {
  FormRun();
  EXPECT_EQ(workers_[1]->session->Leave(false, "the disk is full"), absl::OkStatus());
  const absl::Status lost =
      absl::AbortedError("rank 1 (10.10.1.2:1) was lost in step 0: it left: the disk is full");
  EXPECT_EQ(workers_[0]->end.Get(), lost);
  EXPECT_EQ(workers_[2]->end.Get(), lost);
  EXPECT_EQ(over_.Get(), lost);
  EXPECT_THAT(lost_.Get(), ElementsAre(Rank(1)));
}

TEST_F(MembershipServiceTest, Leave_AfterAbort_GivesTheReason) {
  FormRun();
  EXPECT_EQ(workers_[1]->session->Leave(false, "stop"), absl::OkStatus());
  const absl::Status lost = workers_[0]->end.Get();
  EXPECT_EQ(workers_[0]->session->Leave(true, ""), lost);
}

TEST_F(MembershipServiceTest, ReportStep_ByAllRanks_EntersTheNextStep) {
  FormRun();
  v1::StepDone done;
  done.set_step(6);
  for (int rank = 0; rank < 3; ++rank) {
    done.set_rank(rank);
    workers_[rank]->session->ReportStep(done);
  }
  EXPECT_EQ(step_.Get(), Step(7));
  EXPECT_EQ(done_.Get().step(), 6u);
}

TEST_F(MembershipServiceTest, StreamBroken_MidRun_AbortsTheOthersWithRankStepAndCause) {
  FormRun();
  v1::StepDone done;
  done.set_step(6);
  done.set_rank(2);
  workers_[2]->session->ReportStep(done);
  while (service_.Status().ranks(2).steps_done() < 7) std::this_thread::yield();
  workers_[2]->session.reset();
  const absl::Status lost =
      absl::AbortedError("rank 2 (10.10.1.2:2) was lost in step 7: its session stream broke");
  EXPECT_EQ(workers_[0]->end.Get(), lost);
  EXPECT_EQ(workers_[1]->end.Get(), lost);
  EXPECT_EQ(over_.Get(), lost);
}

TEST_F(MembershipServiceTest, ReportSuspect_Unexplained_AbortsAll) {
  FormRun();
  const Incarnation suspect = formed_.Get().Carrier(Rank(1)).incarnation;
  for (const int by : {0, 2}) {
    workers_[by]->session->ReportSuspect(suspect, Step(3),
                                         absl::UnavailableError("connection refused"), SteadyNow());
  }
  const absl::Status lost = workers_[0]->end.Get();
  EXPECT_EQ(lost.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(lost.message()),
              ContainsRegex("^rank 1 \\(10.10.1.2:1\\) was lost in step 0: rank [02] got no answer "
                            "from it: connection refused$"));
  for (auto& worker : workers_) EXPECT_EQ(worker->end.Get(), lost);
}

TEST_F(MembershipServiceTest, Stop_MidRun_AbortsAllWorkers) {
  FormRun();
  service_.Stop("the coordinator was stopped by SIGTERM", absl::Seconds(5));
  for (auto& worker : workers_) {
    EXPECT_EQ(worker->end.Get(), absl::AbortedError("the coordinator was stopped by SIGTERM"));
  }
}

TEST_F(MembershipServiceTest, Stop_WhileAViewIsRecordedSlowly_AbortReachesAllWorkers) {
  view_takes_ = absl::Seconds(1);
  for (int rank = 0; rank < 3; ++rank) AddWorker().Join(TestHello(rank, {rank}));
  formed_.Get();
  service_.Stop("stopped", absl::Seconds(5));
  for (auto& worker : workers_) EXPECT_EQ(worker->end.Get(), absl::AbortedError("stopped"));
}

TEST_F(MembershipServiceTest, Stop_WhileJoining_EndsJoin) {
  Worker& worker = AddWorker();
  worker.Join(TestHello(0));
  while (service_.Status().ranks_size() < 1) std::this_thread::yield();
  service_.Stop("stopped", absl::Seconds(5));
  EXPECT_EQ(worker.view.get().status(), absl::AbortedError("stopped"));
  EXPECT_FALSE(worker.end.is_set());
}

TEST_F(MembershipServiceTest, ServerGone_MidRun_IsUnavailable) {
  FormRun();
  server_.server->Shutdown(std::chrono::system_clock::now());
  const absl::Status end = workers_[0]->end.Get();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end.message()),
              HasSubstr(absl::StrCat("lost the coordinator ", server_.address, ": ")));
}

TEST_F(MembershipServiceTest, GarbageOnThePort_MidRun_HarmsNobody) {
  FormRun();
  EXPECT_TRUE(Exchange(server_.address, std::string(100000, '\x81'), true).ok());
  EXPECT_TRUE(Exchange(server_.address, "GET / HTTP/1.1\r\n\r\n", true).ok());
  for (auto& worker : workers_) EXPECT_EQ(worker->session->Leave(true, ""), absl::OkStatus());
  EXPECT_EQ(over_.Get(), absl::OkStatus());
}

TEST_F(MembershipServiceTest, Session_MessageOfUnknownKind_IsRefused) {
  SpokenSession spoken(server_.address);
  v1::WorkerMessage message;
  SetChecksum(0, &message);
  spoken.Write(message);
  const grpc::Status status = spoken.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "session: got a message of unknown kind");
}

TEST_F(MembershipServiceTest, Session_BrokenHello_IsRefusedAndHarmsNobody) {
  SpokenSession spoken(server_.address);
  v1::WorkerMessage message;
  *message.mutable_hello() = TestHello(2, {2});
  SetChecksum(0, &message);
  message.mutable_hello()->set_ranks(0, 1);
  spoken.Write(message);
  const grpc::Status status = spoken.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(status.error_message(),
              HasSubstr("is corrupt, or an earlier one was lost: got checksum "));
  FormRun();
}

TEST_F(MembershipServiceTest, Session_BrokenMessageOfAMember_IsALossThatSaysSo) {
  SpokenSession spoken(server_.address);
  FormRunWith(&spoken);
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_sent(1);
  SetChecksum(0, &message);  // that of another place
  spoken.Write(message);
  EXPECT_THAT(std::string(over_.Get().message()),
              HasSubstr("rank 2 (10.10.1.2:2) was lost in step 0: message 1 of the session is "
                        "corrupt, or an earlier one was lost: got checksum "));
  EXPECT_EQ(spoken.Finish().error_code(), grpc::StatusCode::DATA_LOSS);
}

TEST_F(MembershipServiceTest, Session_HalfClosedWithoutLeave_IsALoss) {
  SpokenSession spoken(server_.address);
  FormRunWith(&spoken);
  spoken.WritesDone();
  EXPECT_EQ(over_.Get(), absl::AbortedError("rank 2 (10.10.1.2:2) was lost in step 0: it closed "
                                            "its session without leaving"));
  spoken.Finish();
}

// Workers whose heartbeats are slower than the lease.
class ShortLeaseTest : public MembershipServiceTest {
 protected:
  ShortLeaseTest() : MembershipServiceTest(ShortLease()) {}
  static MembershipConfig ShortLease() {
    MembershipConfig config;
    config.world_size = 1;
    config.lease = absl::Milliseconds(300);
    return config;
  }
};

TEST_F(ShortLeaseTest, SilentWorker_MidRun_IsLost) {
  Worker& worker = AddWorker();
  ASSERT_TRUE(worker.session->Join(TestHello(0)).ok());
  const absl::Status lost =
      absl::AbortedError("rank 0 (10.10.1.2:0) was lost in step 0: it was silent for 0.3 s");
  EXPECT_EQ(worker.end.Get(), lost);
  EXPECT_EQ(over_.Get(), lost);
}

// The message with which the last worker joins begins the run; the same thread records the view, so
// it reads no heartbeats for longer than the lease.
class SlowViewTest : public MembershipServiceTest {
 protected:
  SlowViewTest() : MembershipServiceTest(OneWorker()) {
    heartbeat_interval_ = absl::Milliseconds(50);
    view_takes_ = absl::Seconds(2);
  }
  static MembershipConfig OneWorker() {
    MembershipConfig config;
    config.world_size = 1;
    config.lease = absl::Seconds(1);
    return config;
  }
};

TEST_F(SlowViewTest, WorkerWhoseMessagesAreNotRead_IsNotSilent) {
  Worker& worker = AddWorker();
  ASSERT_TRUE(worker.session->Join(TestHello(0)).ok());
  EXPECT_EQ(worker.session->Leave(true, ""), absl::OkStatus());
  EXPECT_EQ(over_.Get(), absl::OkStatus());
}

// The lease is longer than the heartbeat, and shorter than the test.
class HeartbeatTest : public MembershipServiceTest {
 protected:
  HeartbeatTest() : MembershipServiceTest(OneOfTwo()) {
    heartbeat_interval_ = absl::Milliseconds(100);
  }
  static MembershipConfig OneOfTwo() {
    MembershipConfig config;
    config.world_size = 2;
    config.lease = absl::Seconds(1);
    config.rendezvous_timeout = absl::Seconds(2);
    return config;
  }
};

TEST_F(HeartbeatTest, BusyWorker_KeepsItsPlaceUntilTheRendezvousTimeout) {
  Worker& worker = AddWorker();
  EXPECT_EQ(JoinError(worker, TestHello(0, {0})),
            absl::AbortedError("1 of 2 workers came within 2 s; missing rank 1"));
  EXPECT_EQ(over_.Get(),
            absl::DeadlineExceededError("1 of 2 workers came within 2 s; missing rank 1"));
}

}  // namespace
}  // namespace gradwire
