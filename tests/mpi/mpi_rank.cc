// One rank of the conformance tests of back end mpi. tests/mpi/mpi_test.py starts the ranks with
// mpirun, for one test at a time, because a process can start MPI only once.
//
//     mpirun -np W mpi-rank HOST:PORT --gtest_filter=...
//
// Rank 0 serves the ranks' rendezvous at that address. All ranks leave together, so mpirun ends
// none of them before it has reported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/rpc/grpc_server.h"
#include "coordinator/rendezvous/rendezvous_service.h"
#include "worker/backends/backend.h"
#include "worker/backends/engines/engine_rendezvous.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

constexpr RunId kRun = {7};
constexpr absl::Duration kLong = absl::Seconds(60);
constexpr auto kAWhile = std::chrono::milliseconds(300);

int FromMpirun(const char* variable) { return std::atoi(std::getenv(variable)); }

// This rank's place, and the rendezvous.
struct Job {
  explicit Job(std::string at) : address(std::move(at)) {
    if (rank == 0) server = StartGrpcServer(address, {&service}).value();
    view.run_id = kRun;
    view.generation = Generation(1);
    view.world_size = world_size;
    for (int r = 0; r < world_size; ++r) {
      view.members.push_back({MakeIncarnation(), "127.0.0.1:1", {Rank(r)}});
    }
    view.self = view.members[rank].incarnation;
  }

  // Waits until all ranks are there.
  void Meet(const std::string& where) const {
    EngineRendezvous rendezvous(address);
    ASSERT_TRUE(rendezvous.Connect(view).ok());
    ASSERT_TRUE(rendezvous.Set(absl::StrCat(where, rank), "").ok());
    ASSERT_TRUE(rendezvous.Wait(KeysFrom(0, where), SteadyNow() + kLong).ok());
  }

  // As Meet, but rank 0, which serves the others, returns last.
  void Leave() const {
    Meet("end/");
    EngineRendezvous rendezvous(address);
    ASSERT_TRUE(rendezvous.Connect(view).ok());
    if (rank == 0) {
      ASSERT_TRUE(rendezvous.Wait(KeysFrom(1, "left/"), SteadyNow() + kLong).ok());
    } else {
      rendezvous.Set(absl::StrCat("left/", rank), "").IgnoreError();
    }
  }

  std::vector<std::string> KeysFrom(int first, const std::string& where) const {
    std::vector<std::string> keys;
    for (int r = first; r < world_size; ++r) keys.push_back(absl::StrCat(where, r));
    return keys;
  }

  const std::string address;
  const int rank = FromMpirun("OMPI_COMM_WORLD_RANK");
  const int world_size = FromMpirun("OMPI_COMM_WORLD_SIZE");
  RendezvousStore store;
  RendezvousService service{kRun, &store};
  GrpcServer server;
  View view;
};

Job* job = nullptr;

// Term i of a rank in a step: whole numbers, whose sums are exact in every order.
float Term(int rank, int step, size_t i) {
  return static_cast<float>((i * 7 + rank * 31 + step * 13) % 100);
}

class MpiTest : public ::testing::Test {
 protected:
  void Connect(std::vector<BucketSpec> buckets, BackendOptions options = {}) {
    options.coordinator = job->address;
    buckets_ = std::move(buckets);
    backend_ = MakeBackend("mpi", options).value();
    absl::optional<Incarnation> suspect;
    exchange_ = backend_
                    ->Connect(
                        job->view, [] { return absl::OkStatus(); }, &suspect)
                    .value();
    exchange_->AddLayout(LayoutId(0), buckets_);
  }

  static BucketKey Key(int step, int bucket) { return {LayoutId(0), Step(step), Bucket(bucket)}; }

  std::future<absl::Status> Expect(const BucketKey& key, std::vector<float>* result,
                                   absl::Duration timeout = kLong) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    const size_t bytes = buckets_[key.bucket.value()].bytes;
    result->assign((bytes + 3) / 4, -1);
    exchange_->Expect(key, {reinterpret_cast<uint8_t*>(result->data()), bytes},
                      SteadyNow() + timeout,
                      [done](absl::Status status) { done->set_value(std::move(status)); });
    return done->get_future();
  }
  void Contribute(const BucketKey& key, const std::vector<float>& terms) {
    const size_t bytes = buckets_[key.bucket.value()].bytes;
    exchange_->Contribute(key, Rank(job->rank),
                          {reinterpret_cast<const uint8_t*>(terms.data()), bytes});
  }
  static std::vector<float> Terms(int rank, int step, size_t bytes) {
    std::vector<float> terms((bytes + 3) / 4);
    for (size_t i = 0; i < terms.size(); ++i) terms[i] = Term(rank, step, i);
    return terms;
  }

  // Exchanges all buckets.
  void RunStep(int step) {
    std::vector<std::vector<float>> terms, results(buckets_.size());
    std::vector<std::future<absl::Status>> done;
    for (size_t b = 0; b < buckets_.size(); ++b) {
      done.push_back(Expect(Key(step, b), &results[b]));
      terms.push_back(Terms(job->rank, step, buckets_[b].bytes));
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      const bool is_from_another = IsBroadcast(buckets_[b]) && buckets_[b].root != Rank(job->rank);
      if (!is_from_another) Contribute(Key(step, b), terms[b]);
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      ASSERT_EQ(done[b].get(), absl::OkStatus()) << "bucket " << b;
      Check(buckets_[b], step, results[b]);
    }
  }

  static void Check(const BucketSpec& bucket, int step, const std::vector<float>& got) {
    if (IsBroadcast(bucket)) {
      const std::vector<float> expected = Terms(bucket.root.value(), step, bucket.bytes);
      ASSERT_EQ(std::memcmp(got.data(), expected.data(), bucket.bytes), 0);
      return;
    }
    for (size_t i = 0; i < got.size(); ++i) {
      float sum = 0;
      for (int r = 0; r < job->world_size; ++r) sum += Term(r, step, i);
      ASSERT_EQ(got[i], sum * (1.0f / static_cast<float>(job->world_size))) << "element " << i;
    }
  }

  std::vector<BucketSpec> AllKinds() const {
    std::vector<BucketSpec> buckets = {{4 * 300000, v1::DTYPE_FLOAT32},
                                       {4, v1::DTYPE_FLOAT32},
                                       {4 * 700001, v1::DTYPE_FLOAT32},
                                       {8, v1::DTYPE_FLOAT32}};
    for (int root = 0; root < job->world_size; ++root) {
      buckets.push_back({22081 + static_cast<uint64_t>(root), v1::DTYPE_BYTES, Rank(root)});
    }
    return buckets;
  }

  std::vector<BucketSpec> buckets_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Exchange> exchange_;
};

// Finish lets MPI end, so mpirun's exit code is 0.
TEST_F(MpiTest, RunStep_AllKindsOfBuckets_MeansAndBytesOnAllRanks) {
  Connect(AllKinds());
  for (int step = 0; step < 3; ++step) RunStep(step);
  EXPECT_EQ(exchange_->Finish(SteadyNow() + kLong), absl::OkStatus());
}

TEST_F(MpiTest, RunStep_ThreeGroups_MeansAndBytesOnAllRanks) {
  BackendOptions options;
  options.groups = 3;
  Connect(AllKinds(), options);
  for (int step = 0; step < 3; ++step) RunStep(step);
  EXPECT_EQ(exchange_->Finish(SteadyNow() + kLong), absl::OkStatus());
}

TEST_F(MpiTest, RunStep_Gathers_MeansAndBytesOnAllRanks) {
  BackendOptions options;
  options.gathers = true;
  Connect(AllKinds(), options);
  for (int step = 0; step < 3; ++step) RunStep(step);
  EXPECT_EQ(exchange_->Finish(SteadyNow() + kLong), absl::OkStatus());
}

TEST_F(MpiTest, Connect_AgainInTheSameProcess_SaysThatMpiStartsOnce) {
  Connect({{400, v1::DTYPE_FLOAT32}});
  RunStep(0);
  EXPECT_EQ(exchange_->Finish(SteadyNow() + kLong), absl::OkStatus());
  exchange_.reset();
  Connect({{400, v1::DTYPE_FLOAT32}});
  std::vector<float> result;
  const absl::Status status = Expect(Key(0, 0), &result).get();
  EXPECT_THAT(std::string(status.message()), HasSubstr("MPI can start only once"));
}

TEST_F(MpiTest, AllReduce_ARankStaysAway_DeadlineExceededNamesIt) {
  Connect({{400, v1::DTYPE_FLOAT32}});
  RunStep(0);
  const int away = job->world_size - 1;
  if (job->rank != away) {
    std::vector<float> result;
    const std::vector<float> terms = Terms(job->rank, 1, 400);
    std::future<absl::Status> done = Expect(Key(1, 0), &result, absl::Seconds(1));
    Contribute(Key(1, 0), terms);
    const absl::Status status = done.get();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("missing: rank ", away)));
  }
  job->Meet("late/");
}

// MPI goes on with the collective when the last rank comes.
TEST_F(MpiTest, Cancel_StepUnderWay_MemoryIsNotWrittenAnyMore) {
  Connect({{4 * 100000, v1::DTYPE_FLOAT32}});
  RunStep(0);
  std::vector<float> result;
  const std::vector<float> terms = Terms(job->rank, 1, buckets_[0].bytes);
  std::future<absl::Status> done = Expect(Key(1, 0), &result);
  if (job->rank == 0) {
    Contribute(Key(1, 0), terms);
    std::this_thread::sleep_for(kAWhile);
    exchange_->Cancel(absl::AbortedError("rank 1 was lost"));
    EXPECT_EQ(done.get(), absl::AbortedError("rank 1 was lost"));
    std::fill(result.begin(), result.end(), 5);
  }
  job->Meet("cancelled/");
  if (job->rank != 0) Contribute(Key(1, 0), terms);
  std::this_thread::sleep_for(kAWhile);
  if (job->rank == 0) {
    EXPECT_THAT(result, ::testing::Each(5));
    exchange_.reset();
    EXPECT_THAT(result, ::testing::Each(5));
  }
  job->Meet("written/");
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  gradwire::Job job(argv[1]);
  gradwire::job = &job;
  const int failed = RUN_ALL_TESTS();
  job.Leave();
  return failed;
}
