// A worker that holds up the others, as the coordinator's HTTP pages and metrics show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "common/base/clock.h"
#include "common/session/session.h"
#include "coordinator/run/coordinator.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::gradwire::testing::HttpGet;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CoordinatorOptions ThreeRanksOnTwoWorkers() {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "127.0.0.1:0";
  options.world_size = 3;
  options.workers = 2;
  return options;
}

// What the worker of rank 0 says, which waits, or the one of ranks 1 and 2.
v1::Work WorkOfStepOne(bool waits) {
  v1::Work work;
  work.set_step(1);
  work.set_generation(1);
  work.set_phase(waits ? "wait" : "backward");
  work.set_waits(waits);
  work.set_seconds(10);
  return work;
}

TEST(CoordinatorStragglers, WorkerOfTwoRanks_EachIsCountedAndTheEventNamesBoth) {
  const auto coordinator = Coordinator::Start(ThreeRanksOnTwoWorkers()).value();
  const std::vector<int> ranks[2] = {{0}, {1, 2}};
  std::unique_ptr<Session> sessions[2];
  std::future<bool> joined[2];
  for (const int worker : {0, 1}) {
    SessionOptions options;
    options.coordinator = coordinator->address();
    options.heartbeat_interval = absl::Milliseconds(20);
    options.work = [worker]() -> absl::optional<v1::Work> { return WorkOfStepOne(worker == 0); };
    sessions[worker] = Session::Open(options, [](const absl::Status&) {}).value();
    joined[worker] = std::async(std::launch::async, [&sessions, &ranks, worker] {
      return sessions[worker]->Join(TestHello(worker + 1, ranks[worker])).ok();
    });
  }
  for (std::future<bool>& worker : joined) ASSERT_TRUE(worker.get());
  v1::StepDone done;
  done.set_generation(1);
  done.set_iteration_seconds(0.5);
  sessions[0]->ReportStep(done);

  const absl::Time deadline = SteadyNow() + absl::Seconds(20);
  std::string page;
  do {
    absl::SleepFor(absl::Milliseconds(20));
    page = HttpGet(coordinator->metrics_address(), "/status.json").value().body;
  } while (!absl::StrContains(page, "\"straggler\"") && SteadyNow() < deadline);
  const auto status = nlohmann::json::parse(page);
  const nlohmann::json& event = status["events"].back();
  EXPECT_EQ(event["kind"], "straggler");
  EXPECT_EQ(event["step"], 1);
  EXPECT_THAT(event["text"].get<std::string>(),
              StartsWith("ranks 1, 2 (10.10.1.2:2) hold up step 1: rank 0 has waited for 1"));
  const std::string metrics = HttpGet(coordinator->metrics_address(), "/metrics").value().body;
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_stragglers_total{rank=\"1\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_stragglers_total{rank=\"2\"} 1\n"));
}

}  // namespace
}  // namespace gradwire
