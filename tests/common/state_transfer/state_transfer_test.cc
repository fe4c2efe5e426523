#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/state_transfer/state_fetcher.h"
#include "common/state_transfer/state_service.h"
#include "common/wire/view.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

// A tensor of more than `pieces` pieces, of which no two are alike, and a small one. Each piece is
// read in `pause`.
class TestState : public SharedState {
 public:
  explicit TestState(size_t pieces = 2, absl::Duration pause = absl::ZeroDuration())
      : pause_(pause) {
    bytes_["big"].resize(pieces * kStatePieceBytes + 5);
    std::vector<uint8_t>& big = bytes_["big"];
    for (size_t i = 0; i < big.size(); ++i) {
      big[i] = static_cast<uint8_t>(1 + i + 3 * (i / kStatePieceBytes));
    }
    bytes_["small"] = {7, 8, 9};
    catalog_.add_sections()->set_name("model");
    for (const auto& [key, bytes] : bytes_) {
      v1::StateTensor& tensor = *catalog_.mutable_sections(0)->add_tensors();
      tensor.set_key(key);
      tensor.set_dtype("U8");
      tensor.add_shape(static_cast<int64_t>(bytes.size()));
    }
  }
  const v1::StateCatalog& catalog() const override { return catalog_; }
  absl::Status Read(const std::string& section, const std::string& key, uint64_t begin,
                    absl::Span<uint8_t> out) override {
    const auto found = bytes_.find(key);
    if (section != "model" || found == bytes_.end() || begin + out.size() > found->second.size()) {
      return absl::InvalidArgumentError("no such bytes");
    }
    absl::SleepFor(pause_);
    std::memcpy(out.data(), found->second.data() + begin, out.size());
    return absl::OkStatus();
  }
  const std::vector<uint8_t>& Of(const std::string& key) { return bytes_[key]; }

 private:
  const absl::Duration pause_;
  std::map<std::string, std::vector<uint8_t>> bytes_;
  v1::StateCatalog catalog_;
};

class StateTransferTest : public ::testing::Test {
 protected:
  StateTransferTest() : service_(FindIt()) {
    auto server = StartGrpcServer("127.0.0.1:0", {&service_});
    server_ = *std::move(server);
  }
  ~StateTransferTest() override { server_.Shutdown(); }

  StateService::Find FindIt() {
    return [this](const RunId& run_id, Step step,
                  Generation) -> absl::StatusOr<std::shared_ptr<SharedState>> {
      if (run_id != run_id_) return absl::PermissionDeniedError("another run");
      if (step != Step(12)) return absl::FailedPreconditionError("no such step");
      return state_;
    };
  }
  StateFetcher Fetcher(uint64_t step = 12, absl::optional<RunId> run_id = absl::nullopt,
                       absl::Duration timeout = absl::Seconds(10)) {
    v1::StateId id;
    id.set_run_id(ToBytes(run_id.value_or(run_id_)));
    id.set_step(step);
    return {MakeChannel(server_.address), "the donor", id, timeout};
  }

  const RunId run_id_ = MakeRunId();
  std::shared_ptr<TestState> state_ = std::make_shared<TestState>();
  StateService service_;
  GrpcServer server_;
};

TEST_F(StateTransferTest, Describe_HasAllTensors) {
  StateFetcher fetcher = Fetcher();
  const auto catalog = fetcher.Describe();
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ(catalog->SerializeAsString(), state_->catalog().SerializeAsString());
}

TEST_F(StateTransferTest, Fetch_SeveralRangesOfSeveralPieces_FillsEach) {
  std::vector<uint8_t> big(state_->Of("big").size() - 1), small(2);
  StateFetcher fetcher = Fetcher();
  const absl::Status fetched = fetcher.Fetch({{"model", "big", 1, absl::MakeSpan(big)},
                                              {"model", "big", 0, {}},
                                              {"model", "small", 1, absl::MakeSpan(small)}});
  ASSERT_TRUE(fetched.ok()) << fetched;
  EXPECT_TRUE(std::equal(big.begin(), big.end(), state_->Of("big").begin() + 1));
  EXPECT_THAT(small, ::testing::ElementsAre(8, 9));
}

TEST_F(StateTransferTest, Fetch_BytesBeyondTheTensor_IsTheDonorsError) {
  std::vector<uint8_t> bytes(4);
  StateFetcher fetcher = Fetcher();
  const absl::Status fetched = fetcher.Fetch({{"model", "small", 0, absl::MakeSpan(bytes)}});
  EXPECT_EQ(fetched.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(fetched.message()),
              HasSubstr("state before step 12 from the donor: no such bytes"));
}

TEST_F(StateTransferTest, Fetch_AnotherRunOrStep_IsRefused) {
  std::vector<uint8_t> bytes(3);
  const std::vector<WantedRange> ranges = {{"model", "small", 0, absl::MakeSpan(bytes)}};
  EXPECT_EQ(Fetcher(12, MakeRunId()).Fetch(ranges).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Fetcher(13).Fetch(ranges).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Fetcher(13).Describe().status().code(), absl::StatusCode::kFailedPrecondition);
}

// A coordinator that is too busy for a handshake closes the connection, for example.
TEST_F(StateTransferTest, FirstAttemptToConnectFails_CallsWaitIfTheyMay) {
  server_.Shutdown();
  const auto channel = MakeChannel(server_.address);
  v1::StateId id;
  id.set_run_id(ToBytes(run_id_));
  id.set_step(12);
  StateFetcher hasty(channel, "the donor", id, absl::Seconds(10));
  EXPECT_EQ(hasty.Describe().status().code(), absl::StatusCode::kUnavailable);
  StateFetcher patient(channel, "the donor", id, absl::Seconds(10),
                       [] { return absl::OkStatus(); });
  auto catalog = std::async(std::launch::async, [&patient] { return patient.Describe(); });
  EXPECT_EQ(catalog.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  StateService again(FindIt());
  server_ = StartGrpcServer(server_.address, {&again}).value();
  EXPECT_TRUE(catalog.get().ok());
  server_.Shutdown();
}

TEST_F(StateTransferTest, RunEndsWhileCallsWait_TheyEnd) {
  server_.Shutdown();
  v1::StateId id;
  StateFetcher fetcher(MakeChannel(server_.address), "the donor", id, absl::Seconds(10),
                       [] { return absl::AbortedError("the run is over"); });
  EXPECT_EQ(fetcher.Describe().status(), absl::AbortedError("the run is over"));
  std::vector<uint8_t> bytes(3);
  EXPECT_EQ(fetcher.Fetch({{"model", "small", 0, absl::MakeSpan(bytes)}}),
            absl::AbortedError("the run is over"));
}

// A large checkpoint takes many calls.
TEST_F(StateTransferTest, Fetch_LongAfterTheFirstCall_HasATimeOfItsOwn) {
  StateFetcher fetcher = Fetcher(12, absl::nullopt, absl::Seconds(1));
  ASSERT_TRUE(fetcher.Describe().ok());
  absl::SleepFor(absl::Milliseconds(1100));
  std::vector<uint8_t> bytes(3);
  const absl::Status fetched = fetcher.Fetch({{"model", "small", 0, absl::MakeSpan(bytes)}});
  EXPECT_TRUE(fetched.ok()) << fetched;
}

// A slow network needs longer for a large tensor than a call may take.
TEST_F(StateTransferTest, FetchTensor_LongerThanACallMayTake_ComesInSeveral) {
  state_ = std::make_shared<TestState>(12, absl::Milliseconds(100));
  std::vector<uint8_t> big(state_->Of("big").size());
  StateFetcher fetcher = Fetcher(12, absl::nullopt, absl::Seconds(1));
  const absl::Status fetched = fetcher.FetchTensor("model", "big", absl::MakeSpan(big));
  EXPECT_TRUE(fetched.ok()) << fetched;
  EXPECT_EQ(big, state_->Of("big"));
}

TEST_F(StateTransferTest, FetchTensor_ErrorOfACall_IsReturned) {
  std::vector<uint8_t> more(state_->Of("big").size() + 1);
  EXPECT_EQ(Fetcher().FetchTensor("model", "big", absl::MakeSpan(more)).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(StateTransferTest, Fetch_NobodyAnswers_IsUnavailable) {
  server_.Shutdown();
  std::vector<uint8_t> bytes(3);
  EXPECT_EQ(Fetcher().Fetch({{"model", "small", 0, absl::MakeSpan(bytes)}}).code(),
            absl::StatusCode::kUnavailable);
}

// Sends one piece several times.
class FaultyDonor final : public v1::State::Service {
 public:
  FaultyDonor(v1::StatePiece piece, int times) : piece_(std::move(piece)), times_(times) {}
  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest*,
                     grpc::ServerWriter<v1::StatePiece>* writer) override {
    for (int i = 0; i < times_; ++i) writer->Write(piece_);
    return grpc::Status::OK;
  }

 private:
  const v1::StatePiece piece_;
  const int times_;
};

uint64_t ChecksumOf(const std::string& data) { return Xxh3InUse().whole(data.data(), data.size()); }

// Asks for three bytes, and gets `data` instead, that many times.
absl::Status FetchThree(const std::string& data, uint64_t checksum, int times = 1) {
  v1::StatePiece piece;
  piece.set_data(data);
  piece.set_checksum(checksum);
  FaultyDonor donor(piece, times);
  GrpcServer server = *StartGrpcServer("127.0.0.1:0", {&donor});
  std::vector<uint8_t> bytes(3);
  StateFetcher fetcher(MakeChannel(server.address), "the donor", v1::StateId(), absl::Seconds(10));
  const absl::Status fetched = fetcher.Fetch({{"model", "small", 0, absl::MakeSpan(bytes)}});
  server.Shutdown();
  return fetched;
}

TEST(FaultyDonorTest, DamagedBytes_AreDataLoss) {
  EXPECT_EQ(FetchThree("abd", ChecksumOf("abc")).code(), absl::StatusCode::kDataLoss);
}

TEST(FaultyDonorTest, MoreOrFewerBytesThanAskedFor_AreAnError) {
  EXPECT_THAT(std::string(FetchThree("abcd", ChecksumOf("abcd")).message()),
              HasSubstr("got 4 bytes, which is not what was asked for"));
  EXPECT_THAT(std::string(FetchThree("ab", ChecksumOf("ab")).message()),
              HasSubstr("the call ended before all bytes had come"));
  EXPECT_TRUE(FetchThree("abc", ChecksumOf("abc")).ok());
}

TEST(FaultyDonorTest, PiecesBeyondWhatWasAskedFor_AreAnError) {
  EXPECT_THAT(std::string(FetchThree("abc", ChecksumOf("abc"), 2).message()),
              HasSubstr("got 3 bytes, which is not what was asked for"));
  EXPECT_THAT(std::string(FetchThree("ab", ChecksumOf("ab"), 2).message()),
              HasSubstr("got 2 bytes, which is not what was asked for"));
}

// They could come without end.
TEST(FaultyDonorTest, EmptyPiece_IsAnError) {
  EXPECT_THAT(std::string(FetchThree("", ChecksumOf("")).message()),
              HasSubstr("got 0 bytes, which is not what was asked for"));
}

// Else a run whose links are that slow could resume, but never write a checkpoint.
TEST(StateFetcher, Timeout_LinkOf1MbitPerSecond_IsEnoughForACall) {
  constexpr double kBits = 8.0 * (4 << 20);
  EXPECT_GT(kStateTimeout, absl::Seconds(kBits / 1e6));
}

}  // namespace
}  // namespace gradwire
