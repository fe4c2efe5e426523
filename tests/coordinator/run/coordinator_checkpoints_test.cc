// Checkpoints of a run, as the coordinator's HTTP pages, metrics and its next start show them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "common/state_transfer/state_fetcher.h"
#include "common/state_transfer/state_service.h"
#include "common/wire/view.h"
#include "coordinator/run/coordinator.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::HttpGet;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;

// A model of two floats, all zero.
class ZeroState : public SharedState {
 public:
  ZeroState() {
    v1::StateSection& model = *catalog_.add_sections();
    model.set_name("model");
    v1::StateTensor& tensor = *model.add_tensors();
    tensor.set_key("weight");
    tensor.set_dtype("F32");
    tensor.add_shape(2);
  }
  const v1::StateCatalog& catalog() const override { return catalog_; }
  absl::Status Read(const std::string&, const std::string&, uint64_t,
                    absl::Span<uint8_t> out) override {
    std::fill(out.begin(), out.end(), uint8_t{0});
    return absl::OkStatus();
  }

 private:
  v1::StateCatalog catalog_;
};

// A run of one worker, which serves its state until StopServing.
class CoordinatorCheckpointsTest : public ::testing::Test {
 protected:
  CoordinatorCheckpointsTest() : donor_(StartGrpcServer("127.0.0.1:0", {&service_}).value()) {
    Begin();
  }
  ~CoordinatorCheckpointsTest() override {
    session_.reset();
    donor_.Shutdown();
  }

  void Begin() {
    CoordinatorOptions options;
    options.listen = "127.0.0.1:0";
    options.metrics = "127.0.0.1:0";
    options.run_dir = dir_.path();
    coordinator_ = Coordinator::Start(options).value();
    SessionOptions session;
    session.coordinator = coordinator_->address();
    Session::Listener listener;
    listener.on_saved = [this](const v1::Saved& saved) {
      EXPECT_EQ(saved.generation(), 1);
      saved_[saved.step() / kEvery - 1].set_value(saved.written());
    };
    session_ = Session::Open(
                   session, [](const absl::Status&) {}, std::move(listener))
                   .value();
    v1::Hello hello = TestHello(1, {0});
    hello.set_address(donor_.address);
    ASSERT_TRUE(session_->Join(hello).ok());
  }
  void StopServing() { donor_.Shutdown(); }
  // Says that the worker has a copy before `step`.
  void Offer(uint64_t step) {
    v1::Holds holds;
    holds.set_step(step);
    holds.set_generation(1);
    holds.set_total_steps(100);
    *holds.mutable_sections() = state_->catalog().sections();
    session_->ReportHolds(holds);
  }
  // Says that the worker has a copy before `step`, kEvery or twice that. Returns whether it was
  // written.
  bool Keep(uint64_t step) {
    std::future<bool> saved = saved_[step / kEvery - 1].get_future();
    Offer(step);
    if (saved.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      ADD_FAILURE() << "nothing was said of the copy before step " << step;
      return false;
    }
    return saved.get();
  }
  std::string Metrics() {
    return HttpGet(coordinator_->metrics_address(), "/metrics").value().body;
  }
  nlohmann::json Status() {
    return nlohmann::json::parse(
        HttpGet(coordinator_->metrics_address(), "/status.json").value().body);
  }
  // The status, once its last event is of this kind; else what it was in the end.
  nlohmann::json StatusWith(const std::string& kind) {
    const absl::Time deadline = SteadyNow() + absl::Seconds(20);
    nlohmann::json status;
    do {
      absl::SleepFor(absl::Milliseconds(20));
      status = Status();
    } while (status["events"].back()["kind"] != kind && SteadyNow() < deadline);
    return status;
  }

  // What the coordinator says of the state of a run before `step`.
  absl::StatusOr<v1::StateCatalog> Describe(const std::string& run_id, uint64_t step) {
    v1::StateId id;
    id.set_run_id(run_id);
    id.set_step(step);
    StateFetcher fetcher(MakeChannel(coordinator_->address()), "the coordinator", id,
                         absl::Seconds(10));
    return fetcher.Describe();
  }
  std::string OwnRun() { return absl::HexStringToBytes(Status()["run"].get<std::string>()); }

  static constexpr uint64_t kEvery = 4;

  const testing::TempDir dir_;
  const std::shared_ptr<ZeroState> state_ = std::make_shared<ZeroState>();
  std::atomic<Step> given_up_{Step(0)};  // the worker has no copy before this step any more
  StateService service_{
      [this](const RunId&, Step step, Generation) -> absl::StatusOr<std::shared_ptr<SharedState>> {
        if (step == given_up_) return absl::FailedPreconditionError("another step");
        return std::shared_ptr<SharedState>(state_);
      }};
  GrpcServer donor_;
  std::promise<bool> saved_[2];
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Session> session_;
};

TEST_F(CoordinatorCheckpointsTest, Written_ShownWithStepAndSize) {
  EXPECT_THAT(Metrics(), HasSubstr("\ngradwire_ledger_durable 1\n"));
  EXPECT_TRUE(Status()["checkpoint"].is_null());
  ASSERT_TRUE(Keep(4));
  const std::string metrics = Metrics();
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoint_step 4\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoint_bytes 8\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoints_total{result=\"written\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoints_total{result=\"failed\"} 0\n"));
  EXPECT_EQ(Status()["checkpoint"]["step"], 4);
  EXPECT_EQ(Status()["checkpoint"]["bytes"], 8);
}

TEST_F(CoordinatorCheckpointsTest, NextOneFails_LastOneStaysAndTheEventSaysWhy) {
  ASSERT_TRUE(Keep(4));
  StopServing();
  EXPECT_FALSE(Keep(8));
  const std::string metrics = Metrics();
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoint_step 4\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoints_total{result=\"written\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoints_total{result=\"failed\"} 1\n"));
  const nlohmann::json status = Status();
  EXPECT_EQ(status["checkpoint"]["step"], 4);
  const nlohmann::json& event = status["events"].back();
  EXPECT_EQ(event["kind"], "checkpoint failed");
  EXPECT_EQ(event["step"], 8);
  EXPECT_THAT(event["text"].get<std::string>(),
              HasSubstr("no checkpoint before step 8: no worker is left that holds tensor"));
}

// As after the last step, if the copy before it was not written yet.
TEST_F(CoordinatorCheckpointsTest, NewerOneIsWrittenInItsPlace_IsNoFailure) {
  std::future<bool> first = saved_[0].get_future();
  given_up_ = Step(4);
  Offer(4);
  EXPECT_TRUE(Keep(8));
  EXPECT_FALSE(first.get());
  const std::string metrics = Metrics();
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoint_step 8\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_checkpoints_total{result=\"failed\"} 0\n"));
  EXPECT_EQ(Status()["events"].back()["kind"], "started");
}

// As if the disk takes longer than from one checkpoint to the next.
TEST_F(CoordinatorCheckpointsTest, WorkerDeclines_CountsAsFailedAndTheEventSaysWhy) {
  v1::Holds declined;
  declined.set_step(8);
  declined.set_generation(1);
  declined.set_declined("the copy before step 4 is still in use");
  session_->ReportHolds(declined);
  const nlohmann::json status = StatusWith("checkpoint failed");
  const nlohmann::json& event = status["events"].back();
  EXPECT_EQ(event["kind"], "checkpoint failed");
  EXPECT_EQ(event["step"], 8);
  EXPECT_EQ(event["text"],
            "no checkpoint before step 8: rank 0 has no copy, because the copy before step 4 is "
            "still in use");
  EXPECT_THAT(Metrics(), HasSubstr("\ngradwire_checkpoints_total{result=\"failed\"} 1\n"));
}

TEST_F(CoordinatorCheckpointsTest, NextStart_ContinuesTheSameRunInTheNextEpoch) {
  EXPECT_EQ(Status()["epoch"], 1);
  EXPECT_THAT(Metrics(), HasSubstr("\ngradwire_resumed_step 0\n"));
  ASSERT_TRUE(Keep(4));
  const nlohmann::json before = Status();
  session_.reset();
  coordinator_.reset();
  Begin();
  EXPECT_THAT(Metrics(), HasSubstr("\ngradwire_resumed_step 4\n"));
  EXPECT_THAT(Metrics(), HasSubstr("\ngradwire_step 4\n"));
  const nlohmann::json status = Status();
  EXPECT_EQ(status["run"], before["run"]);
  EXPECT_EQ(status["epoch"], 2);
  EXPECT_EQ(status["ranks"][0]["steps_done"], 4);
  EXPECT_EQ(status["events"][0]["kind"], "resumed");
  EXPECT_EQ(status["events"][0]["text"], "the run continues the checkpoint before step 4");
  EXPECT_EQ(status["events"][1]["kind"], "started");
  EXPECT_EQ(status["events"][1]["step"], 4);
}

// The checkpoint says which epoch wrote it.
TEST_F(CoordinatorCheckpointsTest, NextStart_LedgerIsGone_EpochGrowsAllTheSame) {
  ASSERT_TRUE(Keep(4));
  session_.reset();
  coordinator_.reset();
  std::filesystem::remove_all(dir_.File("ledger"));
  Begin();
  const nlohmann::json status = Status();
  EXPECT_EQ(status["epoch"], 2);
  EXPECT_EQ(status["ranks"][0]["steps_done"], 4);
}

TEST_F(CoordinatorCheckpointsTest, State_RunContinuesNone_IsRefused) {
  const absl::Status none = Describe(OwnRun(), 4).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("got step 4, expected none, because this run continues no checkpoint"));
}

TEST_F(CoordinatorCheckpointsTest, State_OfAnotherStepOrRunThanTheOneThatGoesOn_IsRefused) {
  ASSERT_TRUE(Keep(4));
  session_.reset();
  coordinator_.reset();
  Begin();
  const auto catalog = Describe(OwnRun(), 4);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  ASSERT_EQ(catalog->sections_size(), 1);
  EXPECT_EQ(catalog->sections(0).tensors(0).key(), "weight");
  const absl::Status step = Describe(OwnRun(), 8).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(step)) << step;
  EXPECT_THAT(std::string(step.message()), HasSubstr("got step 8, expected 4"));
  const absl::Status run = Describe(ToBytes(MakeRunId()), 4).status();
  EXPECT_TRUE(absl::IsPermissionDenied(run)) << run;
}

// For the ledger, a file that must not grow is a full disk.
TEST_F(CoordinatorCheckpointsTest, StepCannotBeRecorded_ShownWithTheFirstStepBehindIt) {
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 1;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  v1::Ready ready;
  ready.set_generation(1);
  session_->ReportReady(ready);
  const nlohmann::json status = StatusWith("not-durable");
  setrlimit(RLIMIT_FSIZE, &old);
  const nlohmann::json& event = status["events"].back();
  EXPECT_EQ(event["kind"], "not-durable");
  EXPECT_EQ(event["step"], 1);
  EXPECT_THAT(event["text"].get<std::string>(), HasSubstr("steps are not recorded any more: "));
  EXPECT_NE(status["not_durable"], "");
  EXPECT_EQ(status["state"], "running");
  EXPECT_THAT(Metrics(), HasSubstr("\ngradwire_ledger_durable 0\n"));
}

}  // namespace
}  // namespace gradwire
