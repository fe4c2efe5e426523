// A run that waits for a silent worker, as the coordinator's HTTP pages and metrics show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/session/session.h"
#include "coordinator/run/coordinator.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::gradwire::testing::HttpGet;
using ::gradwire::testing::TestHello;
using ::gradwire::testing::TestLayout;
using ::testing::HasSubstr;

CoordinatorOptions NeedsBoth() {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "127.0.0.1:0";
  options.world_size = 2;
  options.min_workers = 2;
  options.min_lease_seconds = 2;
  options.lease_seconds = 2;
  options.pause_timeout_seconds = 60;
  return options;
}

// Two workers that have sealed a step; rank 1 is heard every six seconds only.
class CoordinatorPauseTest : public ::testing::Test {
 protected:
  CoordinatorPauseTest() : coordinator_(Coordinator::Start(NeedsBoth()).value()) {
    std::future<bool> joined[2];
    for (int rank : {0, 1}) {
      SessionOptions options;
      options.coordinator = coordinator_->address();
      options.heartbeat_interval = rank == 0 ? absl::Milliseconds(250) : absl::Seconds(6);
      sessions_[rank] = Session::Open(options, [](const absl::Status&) {}).value();
      joined[rank] = std::async(std::launch::async, [this, rank] {
        return sessions_[rank]->Join(TestHello(rank + 1, {rank})).ok() &&
               sessions_[rank]->DeclareLayout(TestLayout()).ok();
      });
    }
    for (std::future<bool>& worker : joined) EXPECT_TRUE(worker.get());
    v1::Ready ready;
    ready.set_generation(1);
    for (const auto& session : sessions_) session->ReportReady(ready);
  }

  std::string Get(const std::string& path) {
    return HttpGet(coordinator_->metrics_address(), path).value().body;
  }
  // The page, once it has the text; else what it had in the end.
  std::string GetWith(const std::string& path, absl::string_view text) {
    const absl::Time deadline = SteadyNow() + absl::Seconds(10);
    std::string page;
    do {
      absl::SleepFor(absl::Milliseconds(20));
      page = Get(path);
    } while (!absl::StrContains(page, text) && SteadyNow() < deadline);
    return page;
  }

  const std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Session> sessions_[2];
};

TEST_F(CoordinatorPauseTest, OneIsSilent_ShownWithWhoIsThere) {
  const std::string workers = "\ngradwire_workers 1\n";
  const std::string metrics = GetWith("/metrics", workers);
  EXPECT_THAT(metrics, HasSubstr(workers));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_min_workers 2\n"));
  EXPECT_EQ(HttpGet(coordinator_->metrics_address(), "/readyz").value().code, 503);
  const auto status = nlohmann::json::parse(Get("/status.json"));
  EXPECT_EQ(status["state"], "paused");
  EXPECT_EQ(status["events"].back()["kind"], "paused");
  EXPECT_EQ(status["events"].back()["step"], 1);
  EXPECT_THAT(status["events"].back()["text"].get<std::string>(),
              HasSubstr("rank 1 (10.10.1.2:2) is not heard: it was silent for 2 s"));
}

TEST_F(CoordinatorPauseTest, ItIsHeardAgain_ShownAndNobodyIsLost) {
  EXPECT_THAT(GetWith("/status.json", "resumed"), HasSubstr("resumed"));
  const auto status = nlohmann::json::parse(Get("/status.json"));
  EXPECT_EQ(status["state"], "running");
  EXPECT_EQ(status["events"].back()["kind"], "resumed");
  EXPECT_EQ(status["events"].back()["text"],
            "all workers are back; generation 2 begins with step 1");
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_workers 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_generation 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_lost_workers_total 0\n"));
}

}  // namespace
}  // namespace gradwire
