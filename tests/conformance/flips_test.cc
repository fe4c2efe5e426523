// A bit that flips between two programs, which TCP lets through once in a while, is never taken for
// what was sent: there is an error, or the right result. GRADWIRE_FLIPS is how many are tried in
// all.

#include <grpcpp/server.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "coordinator/membership/membership_service.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/flipping_proxy.h"
#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

using ::gradwire::testing::BitFlip;
using ::gradwire::testing::FlippedNetwork;

constexpr int kUsualFlips = 30;
constexpr int kWorldSize = 3;
constexpr int kSteps = 2;
// How long a trial may take in which a bit flips; it may be one of a length, for whose rest
// somebody waits for ever.
constexpr absl::Duration kLeastPatience = absl::Milliseconds(300);
constexpr int kPatience = 4;  // times as long as one without

// What a trial gives: an error, or all that came out.
using Result = absl::StatusOr<std::string>;
using Trial = std::function<Result(BitFlip* flip, absl::Duration patience)>;

struct Way {
  const char* name;
  Trial trial;
};

// By rank and bucket.
std::vector<std::vector<std::string>> MakeTerms(const std::vector<BucketSpec>& buckets, int step) {
  std::mt19937 random(static_cast<uint32_t>(step + 1));
  std::vector<std::vector<std::string>> terms(kWorldSize);
  for (auto& of_rank : terms) {
    for (const BucketSpec& bucket : buckets) {
      of_rank.push_back(testing::RandomFloatBytes(bucket.bytes, &random));
    }
  }
  return terms;
}

std::vector<BucketSpec> Buckets() {
  std::vector<BucketSpec> buckets(3);
  buckets[0].bytes = 4000;
  buckets[1].bytes = 1200;
  buckets[2].bytes = 77;
  buckets[2].dtype = v1::DTYPE_BYTES;
  buckets[2].root = Rank(1);
  return buckets;
}

Result Exchanges(const std::string& backend, BackendCluster::Settings settings, BitFlip* flip,
                 absl::Duration patience) {
  FlippedNetwork network(flip);
  settings.chunk_bytes = 2048;
  settings.through = [&network](const std::string& address) { return network.Through(address); };
  BackendCluster cluster(backend, kWorldSize, Buckets(), settings);
  if (!cluster.connected().ok()) return cluster.connected();
  std::string all;
  for (int step = 0; step < kSteps; ++step) {
    auto data = MakeTerms(Buckets(), step);
    for (const absl::Status& status : cluster.RunStep(step, &data, patience)) {
      if (!status.ok()) return status;
    }
    for (const auto& of_rank : data) {
      for (const std::string& bucket : of_rank) all += bucket;
    }
  }
  return all;
}

Trial TrialOf(const std::string& backend, const BackendCluster::Settings& settings = {}) {
  return [=](BitFlip* flip, absl::Duration patience) {
    return Exchanges(backend, settings, flip, patience);
  };
}

Trial Compressed(const std::string& backend, const std::string& codec) {
  BackendCluster::Settings settings;
  settings.compression = ParseCompression(codec).value();
  settings.wire = settings.compression.dtype;
  return TrialOf(backend, settings);
}

// What a worker hears beside its View.
class Heard {
 public:
  void OnSealed(Step step) {
    MutexLock lock(&mutex_);
    sealed_ = step.value() + 1;
    changed_.NotifyAll();
  }
  void OnAbort(const absl::Status& status) {
    MutexLock lock(&mutex_);
    abort_ = status;
    changed_.NotifyAll();
  }
  // Until a step is sealed.
  absl::Status Await(uint64_t step, absl::Time deadline) {
    MutexLock lock(&mutex_);
    while (sealed_ <= step && abort_.ok()) {
      if (changed_.WaitWithDeadline(&mutex_, deadline)) {
        return absl::DeadlineExceededError("it is not sealed");
      }
    }
    if (sealed_ > step + 1) return absl::InternalError("another step is sealed");
    return abort_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t sealed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status abort_ ABSL_GUARDED_BY(mutex_);
};

// A run's coordinator and its workers' sessions, without training.
class Sessions : private RunListener {
 public:
  Sessions(BitFlip* flip, absl::Duration patience)
      : network_(flip),
        deadline_(SteadyNow() + patience),
        service_(Config(), this),
        server_(StartGrpcServer("127.0.0.1:0", {&service_}).value()),
        address_(network_.Through(server_.address)) {}
  ~Sessions() override {
    service_.Stop("the test is over", absl::Milliseconds(200));
    server_.Shutdown();
  }

  Result Run() {
    std::vector<std::future<Result>> workers;
    for (int rank = 0; rank < kWorldSize; ++rank) {
      workers.push_back(std::async(std::launch::async, [this, rank] { return RunOne(rank); }));
    }
    absl::Status first;
    std::string all;
    for (auto& worker : workers) {
      // A frame whose head is broken is passed over; a worker may then wait for ever.
      if (worker.wait_until(std::chrono::steady_clock::now() +
                            absl::ToChronoNanoseconds(deadline_ - SteadyNow())) !=
          std::future_status::ready) {
        CancelAll();
      }
      const Result result = worker.get();
      first.Update(result.status());
      if (result.ok()) all += *result;
    }
    if (!first.ok()) return first;
    MutexLock lock(&mutex_);
    for (const std::string& done : done_) all += done;
    return all;
  }

 private:
  static MembershipConfig Config() {
    MembershipConfig config;
    config.world_size = kWorldSize;
    config.lease = absl::Seconds(1);
    config.rendezvous_timeout = absl::Seconds(1);
    config.recover = true;
    return config;
  }

  static v1::Hello HelloOf(int rank) {
    v1::Hello hello;
    hello.add_ranks(static_cast<uint32_t>(rank));
    hello.set_address("10.10.1.2:" + std::to_string(4711 + rank));
    for (const char* name : {"sync", "backend", "lr"}) (*hello.mutable_settings())[name] = "0.1";
    hello.set_cores(4);
    hello.set_host("a host");
    return hello;
  }

  static v1::Layout LayoutOf() {
    v1::Layout layout;
    v1::Tensor* tensor = layout.add_tensors();
    tensor->set_name("weight");
    tensor->add_shape(1000);
    tensor->set_dtype("float32");
    v1::Bucket* bucket = layout.add_buckets();
    bucket->set_bytes(4000);
    bucket->set_dtype(v1::DTYPE_FLOAT32);
    return layout;
  }

  // All that a worker is told.
  Result RunOne(int rank) {
    SessionOptions options;
    options.coordinator = address_;
    options.connect_timeout = absl::Seconds(1);
    options.incarnation = Incarnation(static_cast<uint64_t>(rank) + 1);
    options.heartbeat_interval = absl::Milliseconds(100);
    Heard heard;
    auto session = Session::Open(
        options, [&heard](const absl::Status& status) { heard.OnAbort(status); },
        {[&heard](Step step) { heard.OnSealed(step); }, nullptr, nullptr, nullptr, nullptr});
    if (!session.ok()) return session.status();
    {
      MutexLock lock(&mutex_);
      open_.push_back(session->get());
    }
    const Result told = TellAll(session->get(), &heard, rank);
    MutexLock lock(&mutex_);
    open_.erase(std::find(open_.begin(), open_.end(), session->get()));
    return told;
  }

  void CancelAll() {
    MutexLock lock(&mutex_);
    for (Session* session : open_) session->Cancel();
  }

  Result TellAll(Session* session, Heard* heard, int rank) {
    const absl::StatusOr<View> view = session->Join(HelloOf(rank));
    if (!view.ok()) return view.status();
    const auto layout = session->DeclareLayout(LayoutOf(), deadline_ - SteadyNow());
    if (!layout.ok()) return layout.status();
    session->ReportStep(DoneOf(rank));
    for (uint64_t step = 0; step <= 1; ++step) {
      session->ReportReady(ReadyOf(*view, step));
      if (absl::Status sealed = heard->Await(step, deadline_); !sealed.ok()) return sealed;
    }
    const absl::Status left = session->Leave(true, "");
    if (!left.ok()) return left;
    v1::View told = ToProto(*view);
    told.clear_run_id();  // by chance, as the order of who came first
    std::sort(told.mutable_members()->begin(), told.mutable_members()->end(),
              [](const auto& a, const auto& b) { return a.incarnation() < b.incarnation(); });
    return told.SerializeAsString();
  }

  static v1::StepDone DoneOf(int rank) {
    v1::StepDone done;
    done.set_rank(static_cast<uint32_t>(rank));
    done.set_loss(0.5 * rank);
    done.set_samples(8);
    done.set_total_steps(1);
    return done;
  }

  static v1::Ready ReadyOf(const View& view, uint64_t step) {
    v1::Ready ready;
    ready.set_step(step);
    ready.set_generation(view.generation.value());
    ready.set_last(step == 1);
    return ready;
  }

  absl::Status On(const FormRun& /*form*/) override { return absl::OkStatus(); }
  void On(const EndRun& /*end*/) override {}
  void On(const TakeStep& take) override {
    const v1::StepDone& done = take.done;
    MutexLock lock(&mutex_);
    done_[done.rank() % kWorldSize] = done.SerializeAsString();
  }

  FlippedNetwork network_;
  const absl::Time deadline_;
  Mutex mutex_;
  std::vector<Session*> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> done_ ABSL_GUARDED_BY(mutex_) = std::vector<std::string>(kWorldSize);
  MembershipService service_;
  GrpcServer server_;
  const std::string address_;
};

const Way kWays[] = {
    {"coordinator", TrialOf("coordinator")},
    {"sharded", TrialOf("sharded")},
    {"ring", TrialOf("ring")},
    {"tree", TrialOf("tree")},
    {"int8", Compressed("sharded", "int8")},
    {"session",
     [](BitFlip* flip, absl::Duration patience) { return Sessions(flip, patience).Run(); }},
};

int FlipsOfEach() {
  int flips = kUsualFlips;
  const char* const asked = std::getenv("GRADWIRE_FLIPS");
  if (asked != nullptr && !absl::SimpleAtoi(asked, &flips)) ADD_FAILURE() << asked;
  return (flips + static_cast<int>(std::size(kWays)) - 1) / static_cast<int>(std::size(kWays));
}

class FlipsTest : public ::testing::TestWithParam<Way> {};

TEST_P(FlipsTest, AnyFlippedBit_IsAnErrorOrChangesNothing) {
  BitFlip none;
  const absl::Time begin = SteadyNow();
  const Result expected = GetParam().trial(&none, absl::Seconds(30));
  const absl::Duration patience = std::max(kLeastPatience, kPatience * (SteadyNow() - begin));
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_GT(none.passed(), 0u) << "nothing goes by way of the proxies";
  std::mt19937_64 random(7);
  int made = 0, errors = 0, late = 0, right = 0, unseen = 0;
  for (int i = 0; i < FlipsOfEach(); ++i) {
    BitFlip flip(random() % none.passed(), static_cast<int>(random() % 8));
    const Result result = GetParam().trial(&flip, patience);
    made += flip.is_done() ? 1 : 0;
    if (!result.ok()) {
      const bool is_late =
          absl::IsDeadlineExceeded(result.status()) || absl::IsCancelled(result.status());
      ++(is_late ? late : errors);
    } else {
      EXPECT_TRUE(*result == *expected) << "flip " << i << " is unseen";
      ++(*result == *expected ? right : unseen);
    }
  }
  // Runs differ a little in what they send.
  EXPECT_GE(made, FlipsOfEach() / 2);
  std::cout << GetParam().name << ": " << FlipsOfEach() << " flips in " << none.passed()
            << " bytes: " << errors << " errors, " << late << " that did not end within "
            << patience << ", " << right << " right, " << unseen << " unseen" << std::endl;
}

TEST(BitFlip, Pass_ChangesThatBitAlone) {
  BitFlip flip(5, 2);
  std::string first = "abcd", second = "efgh";
  flip.Pass(reinterpret_cast<uint8_t*>(first.data()), first.size());
  EXPECT_FALSE(flip.is_done());
  flip.Pass(reinterpret_cast<uint8_t*>(second.data()), second.size());
  EXPECT_TRUE(flip.is_done());
  EXPECT_EQ(first + second, "abcdebgh");
}

INSTANTIATE_TEST_SUITE_P(Ways, FlipsTest, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gradwire
