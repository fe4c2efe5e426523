// A separate aggregator in this process, with the pages that it serves.
#include "coordinator/run/separate_aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/session/session.h"
#include "coordinator/run/coordinator.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::HttpGet;
using ::gradwire::testing::ReadFile;
using ::gradwire::testing::TempDir;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;

CoordinatorOptions OfTheCoordinator() {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "off";
  options.world_size = 2;
  options.aggregators = 1;
  return options;
}

// A run of two workers and an aggregator, which has not joined yet.
class SeparateAggregatorTest : public ::testing::Test {
 protected:
  SeparateAggregatorTest() : coordinator_(Coordinator::Start(OfTheCoordinator()).value()) {
    CoordinatorOptions options;
    options.coordinator = coordinator_->address();
    options.listen = "127.0.0.1:0";
    options.metrics = "127.0.0.1:0";
    options.port_file = dir_.File("ports");
    aggregator_ = SeparateAggregator::Start(options).value();
    const std::string ports = ReadFile(options.port_file);
    const size_t metrics = ports.find("metrics=") + 8;
    pages_ = ports.substr(metrics, ports.find('\n', metrics) - metrics);
  }

  ~SeparateAggregatorTest() override { aggregator_->Stop("the test ends"); }

  void Begin() {
    end_ = std::async(std::launch::async, [this] { return aggregator_->Run(); });
    std::future<bool> joined[2];
    for (const int rank : {0, 1}) {
      SessionOptions options;
      options.coordinator = coordinator_->address();
      sessions_[rank] = Session::Open(options, [](const absl::Status&) {}).value();
      v1::Hello hello = TestHello(rank + 1, {rank});
      hello.set_address(absl::StrCat("127.0.0.1:", rank + 1));
      joined[rank] = std::async(std::launch::async,
                                [this, rank, hello] { return sessions_[rank]->Join(hello).ok(); });
    }
    for (std::future<bool>& worker : joined) EXPECT_TRUE(worker.get());
  }
  int Readiness() const { return HttpGet(pages_, "/readyz").value().code; }
  // Its metrics, once they have the text; else what they had in the end.
  std::string MetricsWith(const std::string& text) const {
    const absl::Time deadline = SteadyNow() + absl::Seconds(20);
    std::string metrics = HttpGet(pages_, "/metrics").value().body;
    while (!absl::StrContains(metrics, text) && SteadyNow() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
      metrics = HttpGet(pages_, "/metrics").value().body;
    }
    return metrics;
  }

  const TempDir dir_;
  const std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<SeparateAggregator> aggregator_;
  std::string pages_;  // "host:port"
  std::unique_ptr<Session> sessions_[2];
  std::future<absl::Status> end_;
};

TEST_F(SeparateAggregatorTest, WorkerIsLost_ItServesTheNextViewToTheEnd) {
  EXPECT_EQ(Readiness(), 503);
  Begin();
  const std::string first = "\ngradwire_generation 1\n";
  EXPECT_THAT(MetricsWith(first), HasSubstr(first));
  EXPECT_THAT(MetricsWith(first), HasSubstr("\ngradwire_workers 2\n"));
  EXPECT_EQ(Readiness(), 200);
  sessions_[1].reset();
  const std::string second = "\ngradwire_generation 2\n";
  EXPECT_THAT(MetricsWith(second), HasSubstr(second));
  EXPECT_THAT(MetricsWith(second), HasSubstr("\ngradwire_workers 1\n"));
  EXPECT_EQ(sessions_[0]->Leave(true, ""), absl::OkStatus());
  EXPECT_EQ(end_.get(), absl::OkStatus());
}

TEST_F(SeparateAggregatorTest, Stop_EndsTheRunForAllWithItsReason) {
  Begin();
  const std::string view = "\ngradwire_generation 1\n";
  ASSERT_THAT(MetricsWith(view), HasSubstr(view));
  aggregator_->Stop("stopped by the test");
  EXPECT_EQ(end_.get(), absl::CancelledError("stopped by the test"));
  const absl::Status run = coordinator_->Wait();
  EXPECT_TRUE(absl::IsAborted(run)) << run;
  EXPECT_THAT(std::string(run.message()), HasSubstr("stopped by the test"));
}

}  // namespace
}  // namespace gradwire
