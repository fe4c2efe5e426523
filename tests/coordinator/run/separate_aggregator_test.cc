// A separate aggregator in this process, with the pages that it serves.
#include "coordinator/run/separate_aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/session/session.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "coordinator/run/coordinator.h"
#include "gradwire/v1/aggregation.grpc.pb.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sealed_chunk.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::HttpGet;
using ::gradwire::testing::ReadFile;
using ::gradwire::testing::TempDir;
using ::gradwire::testing::TestHello;
using ::gradwire::testing::UnusedAddress;
using ::testing::HasSubstr;

constexpr uint64_t kBytes = 4;  // of each bucket

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
    std::future<absl::StatusOr<View>> joined[2];
    for (const int rank : {0, 1}) {
      SessionOptions options;
      options.coordinator = coordinator_->address();
      sessions_[rank] = Session::Open(options, [](const absl::Status&) {}).value();
      v1::Hello hello = TestHello(rank + 1, {rank});
      hello.set_address(absl::StrCat("127.0.0.1:", rank + 1));
      joined[rank] = std::async(std::launch::async,
                                [this, rank, hello] { return sessions_[rank]->Join(hello); });
    }
    for (auto& worker : joined) view_ = worker.get().value();
  }
  // Both workers declare it.
  void Declare(const v1::Layout& layout) {
    std::future<bool> declared[2];
    for (const int rank : {0, 1}) {
      declared[rank] = std::async(std::launch::async, [this, rank, layout] {
        return sessions_[rank]->DeclareLayout(layout).ok();
      });
    }
    for (std::future<bool>& worker : declared) EXPECT_TRUE(worker.get());
  }
  // The term of a rank in a bucket of as many bytes.
  v1::Chunk ChunkOf(uint32_t layout, uint64_t step, uint32_t rank, uint32_t bucket,
                    v1::DType dtype) const {
    v1::Chunk chunk;
    chunk.set_run_id(ToBytes(view_.run_id));
    chunk.set_epoch(view_.epoch.value());
    chunk.set_generation(view_.generation.value());
    chunk.set_layout(layout);
    chunk.set_step(step);
    chunk.set_rank(rank);
    chunk.set_bucket(bucket);
    chunk.set_total(kBytes);
    chunk.set_dtype(dtype);
    chunk.set_payload(std::string(kBytes, '\0'));
    SealChunk(&chunk);
    return chunk;
  }
  // Returns when the aggregator has added all.
  void Gather(const std::vector<v1::Chunk>& chunks) const {
    const auto stub = v1::Aggregation::NewStub(MakeChannel(aggregator_->address()));
    grpc::ClientContext context;
    v1::GatherReply reply;
    const auto writer = stub->Gather(&context, &reply);
    for (const v1::Chunk& chunk : chunks) writer->Write(chunk);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(reply.chunks_accepted(), chunks.size());
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
  View view_;  // of a worker
  std::future<absl::Status> end_;
};

TEST_F(SeparateAggregatorTest, WorkerIsLost_ItServesTheNextViewToTheEnd) {
  EXPECT_EQ(Readiness(), 503);
  Begin();
  const std::string first = "\ngradwire_generation 1\n";
  EXPECT_THAT(MetricsWith(first), HasSubstr(first));
  EXPECT_THAT(MetricsWith(first), HasSubstr("\ngradwire_workers 2\n"));
  EXPECT_EQ(Readiness(), 200);
  Declare(ToProto({}, {{kBytes, v1::DTYPE_FLOAT32}}));
  sessions_[1].reset();
  const std::string second = "\ngradwire_generation 2\n";
  EXPECT_THAT(MetricsWith(second), HasSubstr(second));
  EXPECT_THAT(MetricsWith(second), HasSubstr("\ngradwire_workers 1\n"));
  view_.generation = Generation(2);
  Gather({ChunkOf(0, 0, 0, 0, v1::DTYPE_FLOAT32), ChunkOf(0, 0, 1, 0, v1::DTYPE_FLOAT32)});
  EXPECT_EQ(sessions_[0]->Leave(true, ""), absl::OkStatus());
  EXPECT_EQ(end_.get(), absl::OkStatus());
}

TEST_F(SeparateAggregatorTest, Evaluation_ItsStepIsNoneOfTheRun) {
  Begin();
  Declare(ToProto({}, {{kBytes, v1::DTYPE_FLOAT32}}));
  Declare(ToProto({}, {{kBytes, v1::DTYPE_BYTES}, {kBytes, v1::DTYPE_FLOAT32}}));
  for (const uint64_t step : {0, 1}) {
    Gather({ChunkOf(0, step, 0, 0, v1::DTYPE_FLOAT32), ChunkOf(0, step, 1, 0, v1::DTYPE_FLOAT32)});
  }
  Gather({ChunkOf(1, 0, 0, 0, v1::DTYPE_BYTES), ChunkOf(1, 0, 0, 1, v1::DTYPE_FLOAT32),
          ChunkOf(1, 0, 1, 1, v1::DTYPE_FLOAT32)});
  EXPECT_THAT(HttpGet(pages_, "/metrics").value().body, HasSubstr("\ngradwire_step 2\n"));
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

TEST(SeparateAggregatorAlone, NoCoordinatorAnswersInTime_RunFails) {
  CoordinatorOptions options;
  options.coordinator = UnusedAddress();
  options.listen = "127.0.0.1:0";
  options.metrics = "off";
  options.connect_timeout_seconds = 0.25;
  const auto aggregator = SeparateAggregator::Start(options).value();
  const absl::Time begun = SteadyNow();
  EXPECT_THAT(std::string(aggregator->Run().message()), HasSubstr(options.coordinator));
  EXPECT_LT(SteadyNow() - begun, absl::Seconds(20));
}

TEST(SeparateAggregatorAlone, PagesWithAToken_RequireIt) {
  const TempDir dir;
  CoordinatorOptions options;
  options.coordinator = UnusedAddress();
  options.listen = "127.0.0.1:0";
  options.metrics = UnusedAddress();
  options.http_token = true;
  options.security.token_file = dir.File("token");
  testing::WriteFile(options.security.token_file, "the-token-of-this-run\n");
  const auto aggregator = SeparateAggregator::Start(options);
  ASSERT_TRUE(aggregator.ok()) << aggregator.status();
  EXPECT_EQ(HttpGet(options.metrics, "/metrics").value().code, 401);
}

TEST(SeparateAggregatorAlone, Stop_WhileNoCoordinatorAnswers_EndsRunWithItsReason) {
  CoordinatorOptions options;
  options.coordinator = UnusedAddress();
  options.listen = "127.0.0.1:0";
  options.metrics = "off";
  const auto aggregator = SeparateAggregator::Start(options).value();
  std::future<absl::Status> end =
      std::async(std::launch::async, [&aggregator] { return aggregator->Run(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  aggregator->Stop("stopped by the test");
  EXPECT_EQ(end.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(end.get(), absl::CancelledError("stopped by the test"));
}

}  // namespace
}  // namespace gradwire
