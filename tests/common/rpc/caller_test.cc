#include "common/rpc/caller.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "gradwire/v1/status.grpc.pb.h"

namespace gradwire {
namespace {

// Judges a call while it is under way.
class JudgingService final : public v1::Status::Service {
 public:
  explicit JudgingService(std::function<void(const grpc::ServerContext&)> judge)
      : judge_(std::move(judge)) {}
  grpc::Status Get(grpc::ServerContext* context, const v1::StatusRequest*,
                   v1::StatusReply*) override {
    judge_(*context);
    return grpc::Status::OK;
  }

 private:
  const std::function<void(const grpc::ServerContext&)> judge_;
};

// Two ranks, of which rank 1 is carried by the second worker, and then by the first.
View ViewOf(uint64_t generation) {
  View view;
  view.world_size = 2;
  view.generation = Generation(generation);
  view.members = {{Incarnation(1), "127.0.0.1:1", {Rank(0)}}};
  if (generation == 1) view.members.push_back({Incarnation(2), "127.0.0.1:2", {Rank(1)}});
  if (generation == 2) view.members[0].ranks.push_back(Rank(1));
  return view;
}

void CallAs(Incarnation caller, std::function<void(const grpc::ServerContext&)> judge) {
  JudgingService service(std::move(judge));
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
  const auto stub = v1::Status::NewStub(MakeChannel(server.address));
  grpc::ClientContext context;
  SayWho(caller, &context);
  v1::StatusReply reply;
  EXPECT_TRUE(stub->Get(&context, {}, &reply).ok());
  server.Shutdown();
}

TEST(Authority, Check_OnlyTheCarrierMaySayARanksTerm) {
  CallAs(Incarnation(2), [](const grpc::ServerContext& context) {
    Authority authority(&context);
    EXPECT_EQ(authority.Check(ViewOf(1), Generation(1), Rank(1)), absl::OkStatus());
    EXPECT_EQ(authority.Check(ViewOf(1), Generation(1), Rank(0)).code(),
              absl::StatusCode::kPermissionDenied);
  });
}

TEST(Authority, Check_CarrierOfTheViewBefore_MayNoLonger) {
  CallAs(Incarnation(2), [](const grpc::ServerContext& context) {
    Authority authority(&context);
    EXPECT_EQ(authority.Check(ViewOf(1), Generation(1), Rank(1)), absl::OkStatus());
    EXPECT_EQ(authority.Check(ViewOf(2), Generation(2), Rank(1)).code(),
              absl::StatusCode::kPermissionDenied);
  });
}

TEST(Authority, Check_OtherGeneration_IsForOthersToJudge) {
  CallAs(Incarnation(2), [](const grpc::ServerContext& context) {
    Authority authority(&context);
    EXPECT_EQ(authority.Check(ViewOf(2), Generation(1), Rank(1)), absl::OkStatus());
  });
}

TEST(CheckReader, AnswersOfAnotherWorker_AreRefused) {
  CallAs(Incarnation(2), [](const grpc::ServerContext& context) {
    EXPECT_EQ(CheckReader(context, ViewOf(1), Incarnation(2)), absl::OkStatus());
    EXPECT_EQ(CheckReader(context, ViewOf(1), Incarnation(1)),
              absl::PermissionDeniedError(
                  "Scatter: got the incarnation of another worker, expected the caller's own"));
  });
}

TEST(IsMember, CallerOfTheViewBefore_IsNone) {
  CallAs(Incarnation(2), [](const grpc::ServerContext& context) {
    EXPECT_TRUE(IsMember(context, ViewOf(1)));
    EXPECT_FALSE(IsMember(context, ViewOf(2)));
  });
}

TEST(Authority, Check_RankThatThereIsNot_IsForOthersToJudge) {
  CallAs(Incarnation(2), [](const grpc::ServerContext& context) {
    Authority authority(&context);
    for (const int rank : {-1, 2, 1000000}) {
      EXPECT_EQ(authority.Check(ViewOf(1), Generation(1), Rank(rank)), absl::OkStatus()) << rank;
    }
  });
}

TEST(IsNameOf, Name_CaseDoesNotCount) {
  EXPECT_TRUE(IsNameOf("node1.lab", "node1.lab"));
  EXPECT_TRUE(IsNameOf("node1.lab", "NODE1.Lab"));
  EXPECT_TRUE(IsNameOf("10.10.1.1", "10.10.1.1"));
  EXPECT_FALSE(IsNameOf("node1.lab", "node2.lab"));
  EXPECT_FALSE(IsNameOf("node1", "node1.lab"));
}

TEST(IsNameOf, Asterisk_StandsForTheFirstLabelAlone) {
  EXPECT_TRUE(IsNameOf("*.lab", "node1.lab"));
  EXPECT_TRUE(IsNameOf("*.Workers.svc", "node1.workers.svc"));
  EXPECT_FALSE(IsNameOf("*.lab", "lab"));
  EXPECT_FALSE(IsNameOf("*.lab", ".lab"));
  EXPECT_FALSE(IsNameOf("*.lab", "a.node1.lab"));
  EXPECT_FALSE(IsNameOf("*lab", "node1lab"));
  EXPECT_FALSE(IsNameOf("*", "node1"));
  EXPECT_FALSE(IsNameOf("node1.*", "node1.lab"));
}

TEST(CheckReader, ReaderOfNoView_IsForOthersToJudge) {
  CallAs(Incarnation(2), [](const grpc::ServerContext& context) {
    EXPECT_EQ(CheckReader(context, ViewOf(1), Incarnation(3)), absl::OkStatus());
  });
}

}  // namespace
}  // namespace gradwire
