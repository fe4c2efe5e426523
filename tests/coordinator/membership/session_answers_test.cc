#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/grpc_server.h"
#include "common/session/session.h"
#include "common/wire/protocol.h"
#include "gradwire/v1/membership.grpc.pb.h"
#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using testing::TestHello;

// A coordinator that forms a run of one worker in generation 5, and then says one thing more.
class TellingService final : public v1::Membership::Service {
 public:
  explicit TellingService(v1::CoordinatorMessage then) : then_(std::move(then)) {
    SetChecksum(1, &then_);
  }

  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage hello;
    stream->Read(&hello);
    v1::CoordinatorMessage formed;
    v1::View* const view = formed.mutable_view();
    view->set_run_id(std::string(16, 'r'));
    view->set_generation(5);
    view->set_world_size(1);
    view->set_chunk_bytes(1 << 20);
    view->set_threads(1);
    v1::Member* const member = view->add_members();
    member->set_incarnation(hello.hello().incarnation());
    member->set_address(hello.hello().address());
    member->add_ranks(0);
    SetChecksum(0, &formed);
    stream->Write(formed);
    stream->Write(then_);
    while (stream->Read(&hello)) {
    }
    return grpc::Status::OK;
  }

 private:
  v1::CoordinatorMessage then_;
};

v1::CoordinatorMessage SealedIn(uint64_t generation) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(3);
  message.mutable_sealed()->set_generation(generation);
  return message;
}

// What the worker of such a run hears first: that a step is sealed, or how its session ended.
std::string FirstHeard(const v1::CoordinatorMessage& then) {
  TellingService service(then);
  const GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
  std::promise<std::string> promise;
  std::future<std::string> heard = promise.get_future();
  SessionOptions options;
  options.coordinator = server.address;
  Session::Listener listener;
  listener.on_sealed = [&promise](Step step) {
    promise.set_value(absl::StrCat("step ", step.value()));
  };
  const auto session = Session::Open(
      options, [&promise](const absl::Status& end) { promise.set_value(end.ToString()); },
      listener);
  const absl::StatusOr<View> view = session.value()->Join(TestHello(options.incarnation.value()));
  if (!view.ok()) return view.status().ToString();
  const bool told = heard.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  (*session)->Cancel();
  return told ? heard.get() : "nothing";
}

TEST(SessionAnswers, Sealed_InTheGenerationOfTheView_IsHeard) {
  EXPECT_EQ(FirstHeard(SealedIn(5)), "step 3");
}

TEST(SessionAnswers, Sealed_InAnotherGeneration_EndsTheSessionAndSaysWhich) {
  EXPECT_THAT(FirstHeard(SealedIn(4)),
              HasSubstr("coordinator: got step 3 sealed in generation 4, expected generation 5"));
}

TEST(SessionAnswers, LayoutAgreed_OutOfTurn_EndsTheSessionAndSaysWhich) {
  v1::CoordinatorMessage agreed;
  agreed.mutable_layout_agreed()->set_id(1);
  EXPECT_THAT(FirstHeard(agreed), HasSubstr("coordinator: got layout 1 agreed, expected 0"));
}

TEST(SessionAnswers, MessageOfUnknownKind_EndsTheSession) {
  EXPECT_THAT(FirstHeard({}), HasSubstr("coordinator: got a message of unknown kind"));
}

}  // namespace
}  // namespace gradwire
