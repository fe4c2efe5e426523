// The worker's and the coordinator's end of v1.Rendezvous, over a real server.

#include "worker/backends/engines/engine_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "common/base/clock.h"
#include "common/rpc/grpc_server.h"
#include "coordinator/rendezvous/rendezvous_service.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

absl::Time In(absl::Duration duration) { return SteadyNow() + duration; }

class EngineRendezvousTest : public ::testing::Test {
 protected:
  EngineRendezvousTest() {
    view_.run_id = run_id_;
    view_.generation = Generation(1);
    server_ = StartGrpcServer("127.0.0.1:0", {&service_}).value();
    rendezvous_ = Connect(view_);
  }
  ~EngineRendezvousTest() override { server_.server->Shutdown(); }

  std::unique_ptr<EngineRendezvous> Connect(const View& view) {
    auto rendezvous = std::make_unique<EngineRendezvous>(server_.address);
    EXPECT_TRUE(rendezvous->Connect(view).ok());
    return rendezvous;
  }

  const RunId run_id_ = MakeRunId();
  RendezvousStore store_;
  RendezvousService service_{run_id_, &store_};
  GrpcServer server_;
  View view_;
  std::unique_ptr<EngineRendezvous> rendezvous_;
};

TEST_F(EngineRendezvousTest, Wait_SetByAnotherWorker_GetsTheValuesInOrder) {
  const auto other = Connect(view_);
  auto values = std::async(std::launch::async, [this] {
    return rendezvous_->Wait({"b", "a"}, In(absl::Seconds(20)));
  });
  ASSERT_TRUE(other->Set("a", "1").ok());
  ASSERT_TRUE(other->Set("b", "2").ok());
  EXPECT_THAT(*values.get(), ElementsAre("2", "1"));
}

TEST_F(EngineRendezvousTest, Wait_DeadlinePassed_NamesTheMissingKey) {
  const auto values = rendezvous_->Wait({"a"}, In(absl::Milliseconds(50)));
  EXPECT_EQ(values.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(values.status().message()),
              HasSubstr("rendezvous at coordinator 127.0.0.1:"));
  EXPECT_THAT(std::string(values.status().message()), HasSubstr("missing keys: engine/1/a"));
}

TEST_F(EngineRendezvousTest, Wait_LongerThanTheServiceLooksForItsCaller_GoesOn) {
  auto values = std::async(std::launch::async,
                           [this] { return rendezvous_->Wait({"a"}, In(absl::Seconds(20))); });
  EXPECT_EQ(values.wait_for(std::chrono::milliseconds(700)), std::future_status::timeout);
  ASSERT_TRUE(rendezvous_->Set("a", "1").ok());
  EXPECT_THAT(*values.get(), ElementsAre("1"));
}

TEST_F(EngineRendezvousTest, Get_SomeKeysAreMissing_HaveNoValue) {
  ASSERT_TRUE(rendezvous_->Set("a", "").ok());
  EXPECT_THAT(*rendezvous_->Get({"b", "a"}, In(absl::Seconds(10))),
              ElementsAre(absl::nullopt, Optional(std::string())));
}

TEST_F(EngineRendezvousTest, Get_OtherGeneration_KeysAreApart) {
  ASSERT_TRUE(rendezvous_->Set("a", "1").ok());
  view_.generation = Generation(2);
  EXPECT_THAT(*Connect(view_)->Get({"a"}, In(absl::Seconds(10))), ElementsAre(absl::nullopt));
}

TEST_F(EngineRendezvousTest, AllCalls_OtherRun_PermissionDenied) {
  view_.run_id = MakeRunId();
  const auto stranger = Connect(view_);
  const absl::Status set = stranger->Set("a", "1");
  EXPECT_EQ(set.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(set.message()), HasSubstr("expected run " + ToHex(run_id_)));
  const absl::StatusCode denied = absl::StatusCode::kPermissionDenied;
  EXPECT_EQ(stranger->Get({"a"}, In(absl::Seconds(5))).status().code(), denied);
  EXPECT_EQ(stranger->Wait({"a"}, In(absl::Seconds(5))).status().code(), denied);
}

TEST_F(EngineRendezvousTest, AllCalls_RunIsOver_AbortedWithItsReason) {
  store_.Abort(absl::AbortedError("rank 1 was lost in step 7"));
  for (const absl::Status& status :
       {rendezvous_->Set("a", "1"), rendezvous_->Get({"a"}, In(absl::Seconds(5))).status(),
        rendezvous_->Wait({"a"}, In(absl::Seconds(5))).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 was lost in step 7"));
  }
}

TEST_F(EngineRendezvousTest, Cancel_WhileWaiting_EndsWithReason) {
  auto values = std::async(std::launch::async,
                           [this] { return rendezvous_->Wait({"a"}, In(absl::Seconds(20))); });
  EXPECT_EQ(values.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  rendezvous_->Cancel(absl::AbortedError("the run is over"));
  EXPECT_EQ(values.get().status(), absl::AbortedError("the run is over"));
}

TEST_F(EngineRendezvousTest, Set_AfterCancel_EndsWithReason) {
  rendezvous_->Cancel(absl::AbortedError("the run is over"));
  EXPECT_EQ(rendezvous_->Set("a", "1"), absl::AbortedError("the run is over"));
}

TEST_F(EngineRendezvousTest, Set_CoordinatorIsGone_UnavailableNamesIt) {
  server_.server->Shutdown();
  const absl::Status status = rendezvous_->Set("a", "1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_.address));
}

}  // namespace
}  // namespace gradwire
