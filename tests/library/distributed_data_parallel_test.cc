#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "gradwire/v1/status.grpc.pb.h"
#include "tests/library/models.h"
#include "tests/library/ranks.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing::distributed_data_parallel_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kRanks = 2;

// Every test runs with gradients of their own memory and as views into buckets.
class DdpTest : public ::testing::TestWithParam<bool> {
 protected:
  static DDPOptions Options() {
    DDPOptions options;
    options.gradient_as_bucket_view = GetParam();
    options.bucket_cap_mb = 0;  // several buckets
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Gradients, DdpTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "AreViews" : "AreCopies"; });

TEST_P(DdpTest, Construct_OtherWeightsOnEachRank_AllHaveThoseOfRankZero) {
  RunRanksWell(3, [](const auto& group) {
    Net net(static_cast<uint64_t>(group->rank()));
    DistributedDataParallel ddp(net, group, Options());
    ExpectSameParameters(*net, *Net(0));
  });
}

TEST_P(DdpTest, Backward_OwnBatchOnEachRank_GradientsOfTheWholeBatch) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group, Options());
    LossOf(net, BatchOf(group->rank())).backward();
    Net whole(0);
    LossOf(whole, BatchesOf({0, 1})).backward();
    ExpectSameGradients(*net, *whole);
    EXPECT_EQ(ddp.steps(), 1);
  });
}

TEST_P(DdpTest, TenStepsOfAdam_EqualsOneProcessWithTheWholeBatch) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group, Options());
    torch::optim::Adam adam(net->parameters(), 0.01);
    Net whole(0);
    torch::optim::Adam whole_adam(whole->parameters(), 0.01);
    for (int step = 0; step < 10; ++step) {
      adam.zero_grad();
      LossOf(net, BatchOf(2 * step + group->rank())).backward();
      adam.step();
      whole_adam.zero_grad();
      LossOf(whole, BatchesOf({2 * step, 2 * step + 1})).backward();
      whole_adam.step();
    }
    ExpectSameParameters(*net, *whole);
  });
}

TEST_P(DdpTest, Backward_TwiceWithoutZeroing_GradientsAddUp) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group, Options());
    Net whole(0);
    for (int pass = 0; pass < 2; ++pass) {
      LossOf(net, BatchOf(2 * pass + group->rank())).backward();
      LossOf(whole, BatchesOf({2 * pass, 2 * pass + 1})).backward();
    }
    ExpectSameGradients(*net, *whole);
  });
}

TEST_P(DdpTest, NoSync_ThenAnAveragingPass_AveragesTheSum) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group, Options());
    {
      const auto guard = ddp.no_sync();
      LossOf(net, BatchOf(group->rank())).backward();
      Net alone(0);
      LossOf(alone, BatchOf(group->rank())).backward();
      ExpectSameGradients(*net, *alone);
    }
    EXPECT_EQ(ddp.steps(), 0);
    LossOf(net, BatchOf(2 + group->rank())).backward();
    Net whole(0);
    LossOf(whole, BatchesOf({0, 1})).backward();
    LossOf(whole, BatchesOf({2, 3})).backward();
    ExpectSameGradients(*net, *whole);
    EXPECT_EQ(ddp.steps(), 1);
  });
}

TEST_P(DdpTest, NoSync_Nested_OnlyTheOuterGuardEndsIt) {
  RunRanksWell(1, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group, Options());
    const auto outer = ddp.no_sync();
    { const auto inner = ddp.no_sync(); }
    LossOf(net, BatchOf(0)).backward();
    EXPECT_EQ(ddp.steps(), 0);
  });
}

TEST_P(DdpTest, GradientSetByHand_IsInTheMean) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group, Options());
    const torch::Tensor bias = net->last->bias;
    bias.mutable_grad() = torch::full_like(bias, 10 * group->rank());
    LossOf(net, BatchOf(group->rank())).backward();
    Net whole(0);
    LossOf(whole, BatchesOf({0, 1})).backward();
    EXPECT_TRUE(torch::allclose(bias.grad(), whole->last->bias.grad() + 5));
  });
}

TEST_P(DdpTest, UnusedParameter_EveryRankFailsInThatStep) {
  const Ends ends = RunRanks(kRanks, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group, Options());
    LossOf(net, BatchOf(0)).backward();
    if (group->rank() == 1) {
      net->first->forward(BatchOf(0).x).sum().backward();
    } else {
      LossOf(net, BatchOf(0)).backward();
    }
  });
  ASSERT_TRUE(ends[1].has_value());
  EXPECT_EQ(ends[1]->code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ends[1]->step(), 1);
  EXPECT_THAT(ends[1]->what(), AllOf(HasSubstr("'last.weight', 'last.bias'"), HasSubstr("step 1")));
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kAborted);
  EXPECT_THAT(ends[0]->what(), AllOf(HasSubstr("rank 1"), HasSubstr("'last.weight'")));
}

TEST_P(DdpTest, FindUnused_UsedOnOneRankOnly_OthersCountAsZero) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DDPOptions options = Options();
    options.find_unused_parameters = true;
    DistributedDataParallel ddp(net, group, options);
    if (group->rank() == 1) {
      net->first->forward(BatchOf(0).x).sum().backward();
    } else {
      LossOf(net, BatchOf(0)).backward();
    }
    Net alone(0);
    LossOf(alone, BatchOf(0)).backward();
    EXPECT_TRUE(torch::allclose(net->last->bias.grad(), alone->last->bias.grad() / 2));
  });
}

TEST_P(DdpTest, FindUnused_UsedNowhere_GradStaysUndefined) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DDPOptions options = Options();
    options.find_unused_parameters = true;
    DistributedDataParallel ddp(net, group, options);
    net->first->forward(BatchOf(0).x).sum().backward();
    EXPECT_FALSE(net->last->bias.grad().defined());
    EXPECT_TRUE(net->first->bias.grad().defined());
  });
}

// A parameter that no rank uses in the averaging pass has a gradient of the passes before.
TEST_P(DdpTest, FindUnused_UsedOnlyBeforeTheAveragingPass_GradientIsAveraged) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    DDPOptions options = Options();
    options.find_unused_parameters = true;
    DistributedDataParallel ddp(net, group, options);
    {
      const auto guard = ddp.no_sync();
      LossOf(net, BatchOf(group->rank())).backward();
    }
    net->first->forward(BatchOf(0).x).sum().backward();
    Net whole(0);
    LossOf(whole, BatchesOf({0, 1})).backward();
    ASSERT_TRUE(net->last->bias.grad().defined());
    EXPECT_TRUE(torch::allclose(net->last->weight.grad(), whole->last->weight.grad()));
    EXPECT_TRUE(torch::allclose(net->last->bias.grad(), whole->last->bias.grad()));
  });
}

TEST_P(DdpTest, Backward_TwoModels_BothAreAveraged) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net first(0);
    Net second(1);
    DistributedDataParallel a(first, group, Options());
    DistributedDataParallel b(second, group, Options());
    const Batch batch = BatchOf(group->rank());
    (LossOf(first, batch) * LossOf(second, batch).detach() + LossOf(second, batch)).backward();
    for (const auto& parameter : first->parameters()) {
      for (const auto& other : group->all_gather(parameter.grad())) {
        EXPECT_TRUE(torch::equal(other, parameter.grad()));
      }
    }
    EXPECT_EQ(a.steps() + b.steps(), 2);
  });
}

TEST(Ddp, BroadcastBuffers_AfterAStep_AllHaveThoseOfRankZero) {
  RunRanksWell(kRanks, [](const auto& group) {
    NormNet net;
    DistributedDataParallel ddp(net, group);
    const Batch batch = BatchOf(group->rank());
    net->forward(batch.x).sum().backward();
    NormNet alone;
    alone->forward(BatchOf(0).x);
    EXPECT_TRUE(torch::allclose(net->norm->running_mean, alone->norm->running_mean));
    EXPECT_EQ(net->norm->num_batches_tracked.item<int64_t>(), 1);
  });
}

TEST(Ddp, NoBroadcastBuffers_AfterAStep_EachHasItsOwn) {
  RunRanksWell(kRanks, [](const auto& group) {
    NormNet net;
    DDPOptions options;
    options.broadcast_buffers = false;
    DistributedDataParallel ddp(net, group, options);
    net->forward(BatchOf(group->rank()).x).sum().backward();
    NormNet alone;
    alone->forward(BatchOf(group->rank()).x);
    EXPECT_TRUE(torch::allclose(net->norm->running_mean, alone->norm->running_mean));
  });
}

TEST(Ddp, OtherModelOnOneRank_ErrorNamesTheFirstDifference) {
  const Ends ends = RunRanks(kRanks, [](const auto& group) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3 + group->rank()));
    DistributedDataParallel ddp(net, group);
  });
  for (const auto& end : ends) {
    ASSERT_TRUE(end.has_value());
    EXPECT_THAT(end->what(),
                AllOf(HasSubstr("0.weight"), HasSubstr("[3, 4]"), HasSubstr("[4, 4]")));
  }
}

// Else the others would wait for its message in each pass.
TEST(Ddp, FindUnusedOnOneRankOnly_IsRefused) {
  GroupOptions options;
  options.step_timeout_seconds = 5;
  const Ends ends = RunRanks(
      kRanks,
      [](const auto& group) {
        Net net(0);
        DDPOptions finds;
        finds.find_unused_parameters = group->rank() == 1;
        DistributedDataParallel ddp(net, group, finds);
        LossOf(net, BatchOf(group->rank())).backward();
      },
      options);
  for (const auto& end : ends) {
    ASSERT_TRUE(end.has_value());
    EXPECT_THAT(end->what(), HasSubstr("option find_unused_parameters"));
  }
}

TEST(Ddp, Construct_NullPointer_InvalidArgument) {
  Net net(0);
  try {
    DistributedDataParallel(net, nullptr);
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("got no group"));
  }
  const Ends ends = RunRanks(kRanks, [](const auto& group) {
    std::shared_ptr<torch::nn::Module> module;
    if (group->rank() == 0) module = Net(0).ptr();
    DistributedDataParallel ddp(module, group);
  });
  ASSERT_TRUE(ends[0].has_value() && ends[1].has_value());
  EXPECT_EQ(ends[1]->code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(ends[1]->what(), HasSubstr("got no module"));
}

TEST(Ddp, NothingToTrain_InvalidArgument) {
  const Ends ends = RunRanks(1, [](const auto& group) {
    Net net(0);
    for (torch::Tensor& parameter : net->parameters()) parameter.set_requires_grad(false);
    DistributedDataParallel ddp(net, group);
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(ends[0]->what(), HasSubstr("without a parameter that requires a gradient"));
}

TEST(Ddp, DoubleParameter_InvalidArgumentWithItsName) {
  const Ends ends = RunRanks(1, [](const auto& group) {
    torch::nn::Linear net(2, 2);
    net->to(torch::kDouble);
    DistributedDataParallel ddp(net, group);
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(ends[0]->what(), AllOf(HasSubstr("'weight'"), HasSubstr("Double")));
}

TEST(Ddp, SparseGradient_InvalidArgumentWithItsName) {
  const Ends ends = RunRanks(1, [](const auto& group) {
    torch::nn::Embedding net(torch::nn::EmbeddingOptions(10, 2).sparse(true));
    DistributedDataParallel ddp(net, group);
    net->forward(torch::tensor({1, 2})).sum().backward();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(ends[0]->what(), AllOf(HasSubstr("'weight'"), HasSubstr("sparse")));
}

// Runs a backward pass of its own within backward, as reentrant checkpoints do.
class Reentrant : public torch::autograd::Function<Reentrant> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x,
                               Linear* layer) {
    context->save_for_backward({x});
    context->saved_data["layer"] = reinterpret_cast<int64_t>(layer);
    return (*layer)->forward(x).sum();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list) {
    const torch::AutoGradMode record(true);
    auto* layer = reinterpret_cast<Linear*>(context->saved_data["layer"].toInt());
    (*layer)->forward(context->get_saved_variables()[0].detach()).sum().backward();
    return {torch::Tensor(), torch::Tensor()};
  }
};

TEST(Ddp, BackwardWithinBackward_ErrorSaysSo) {
  const Ends ends = RunRanks(1, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    const torch::Tensor x = BatchOf(0).x.clone().requires_grad_();
    (Reentrant::apply(x, &net->first) + LossOf(net, BatchOf(0))).backward();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_THAT(ends[0]->what(), HasSubstr("reentrant"));
}

TEST(Ddp, BackwardAfterOneThatThrew_ErrorAndNoSilentLocalStep) {
  const Ends ends = RunRanks(1, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    net->first->weight.register_hook(
        [](const torch::Tensor&) { throw std::runtime_error("the user's"); });
    EXPECT_THROW(LossOf(net, BatchOf(0)).backward(), std::exception);
    LossOf(net, BatchOf(0)).backward();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kFailedPrecondition);
}

TEST(Ddp, BackwardAfterAnError_ThrowsItAgain) {
  RunRanks(1, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_THROW(net->first->forward(BatchOf(0).x).sum().backward(), Error) << pass;
    }
  });
}

double ValueOf(const std::string& metrics, const std::string& name) {
  const size_t at = metrics.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + 1 + name.size()));
}

TEST(Ddp, ReportLoss_BeforeAPass_CountsInThatStepAlone) {
  GroupOptions options;
  options.metrics = UnusedAddress();
  const auto pass = [&options](Net& net) {
    LossOf(net, BatchOf(0)).backward();
    return HttpGet(options.metrics, "/metrics").value().body;
  };
  RunRanksWell(
      1,
      [&pass](const auto& group) {
        Net net(0);
        DistributedDataParallel ddp(net, group);
        EXPECT_EQ(ValueOf(pass(net), "gradwire_loss"), -1) << "a step that reports none";
        ddp.report_loss(0.25, 5);
        const std::string reported = pass(net);
        EXPECT_EQ(ValueOf(reported, "gradwire_loss"), 0.25);
        EXPECT_EQ(ValueOf(reported, "gradwire_samples_total"), 5);
        const std::string next = pass(net);
        EXPECT_EQ(ValueOf(next, "gradwire_loss"), 0.25);
        EXPECT_EQ(ValueOf(next, "gradwire_samples_total"), 5);
      },
      options);
}

TEST(Ddp, OverflowOnTheWire_StepsAfterIt_CountOnce) {
  GroupOptions options;
  options.metrics = UnusedAddress();
  options.wire = "fp16";
  RunRanksWell(
      1,
      [&options](const auto& group) {
        Net net(0);
        DistributedDataParallel ddp(net, group);
        (LossOf(net, BatchOf(0)) * 1e30).backward();
        for (int step = 1; step <= 3; ++step) LossOf(net, BatchOf(step)).backward();
        const std::string metrics = HttpGet(options.metrics, "/metrics").value().body;
        EXPECT_EQ(ValueOf(metrics, "gradwire_wire_overflows_total"), 1);
      },
      options);
}

// What is counted is what each step adds, not what has been sent since the beginning.
TEST(Ddp, SeveralSteps_BytesOnThePage_AreThoseOfTheSteps) {
  GroupOptions options;
  options.coordinator = UnusedAddress();
  options.coordinator_metrics = "off";
  options.world_size = kRanks;
  options.backend = "sharded";
  options.shared_memory = "off";
  const std::string page = UnusedAddress();
  const std::vector<std::string> names = {"gradwire_bytes_total{direction=\"sent\"}",
                                          "gradwire_bytes_total{direction=\"received\"}"};
  std::vector<std::string> pages;  // after each step of rank 0
  const auto train = [&](int rank) {
    GroupOptions own = options;
    own.rank = rank;
    if (rank == 0) own.metrics = page;
    const auto group = init_process_group(own);
    Net net(0);
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 5; ++step) {
      LossOf(net, BatchOf(step)).backward();
      if (rank == 0) pages.push_back(HttpGet(page, "/metrics").value().body);
    }
    group->close();
  };
  auto other = std::async(std::launch::async, [&train] { train(1); });
  train(0);
  other.get();
  int64_t elements = 0;
  for (const torch::Tensor& parameter : Net(0)->parameters()) elements += parameter.numel();
  const double of_step = 4.0 * static_cast<double>(elements);  // a half, and a half of the mean
  for (const std::string& name : names) {
    const double bytes = ValueOf(pages.back(), name) - ValueOf(pages.front(), name);
    EXPECT_GT(bytes, 2 * of_step) << name;
    EXPECT_LT(bytes, 6 * of_step) << name;
  }
}

TEST(Ddp, SlowForwardAndBackward_Metrics_HaveEachTimeInItsPhase) {
  GroupOptions options;
  options.metrics = UnusedAddress();
  RunRanksWell(
      1,
      [&options](const auto& group) {
        Net net(0);
        DistributedDataParallel ddp(net, group);
        net->first->weight.register_hook([](const torch::Tensor&) {
          std::this_thread::sleep_for(std::chrono::milliseconds(120));
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(40));
        LossOf(net, BatchOf(0)).backward();
        const std::string metrics = HttpGet(options.metrics, "/metrics").value().body;
        EXPECT_GE(ValueOf(metrics, "gradwire_phase_seconds_sum{phase=\"forward\"}"), 0.04);
        EXPECT_GE(ValueOf(metrics, "gradwire_phase_seconds_sum{phase=\"backward\"}"), 0.12);
      },
      options);
}

// Sleeps when backward has computed the last gradient of `net`.
void SlowDown(Net& net) {
  net->first->weight.register_hook(
      [](const torch::Tensor&) { std::this_thread::sleep_for(std::chrono::milliseconds(60)); });
}

// Else each step would count the other model's, too.
TEST(Ddp, SeveralModels_Metrics_HaveEachTimeOnce) {
  GroupOptions options;
  options.metrics = UnusedAddress();
  RunRanksWell(
      1,
      [&options](const auto& group) {
        Net first(0), second(1);
        SlowDown(first);
        SlowDown(second);
        const auto start = std::chrono::steady_clock::now();
        DistributedDataParallel a(first, group);
        DistributedDataParallel b(second, group);
        LossOf(first, BatchOf(0)).backward();
        LossOf(second, BatchOf(0)).backward();
        for (int step = 0; step < 4; ++step) {
          (LossOf(first, BatchOf(0)) + LossOf(second, BatchOf(0))).backward();
        }
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        const std::string metrics = HttpGet(options.metrics, "/metrics").value().body;
        for (const std::string phase : {"forward", "backward"}) {
          const double seconds =
              ValueOf(metrics, "gradwire_phase_seconds_sum{phase=\"" + phase + "\"}");
          EXPECT_GE(seconds, 0) << phase;
          EXPECT_LE(seconds, elapsed.count()) << phase;
        }
      },
      options);
}

TEST(Ddp, Trace_SeveralRanks_EachHasAFileWithThePartsOfItsSteps) {
  const TempDir dir;
  GroupOptions options;
  options.trace = dir.File("{rank}.json");
  RunRanksWell(
      kRanks,
      [](const auto& group) {
        Net net(0);
        DistributedDataParallel ddp(net, group);
        for (int step = 0; step < 2; ++step) LossOf(net, BatchOf(step)).backward();
      },
      options);
  for (const std::string rank : {"0", "1"}) {
    const auto events = nlohmann::json::parse(ReadFile(dir.File(rank + ".json")));
    EXPECT_EQ(events.front()["args"]["name"], "rank " + rank);
    EXPECT_EQ(events.back()["name"], "clock_offset");
    std::vector<std::string> parts, kinds;
    for (const auto& event : events) {
      kinds.push_back(event.value("cat", ""));
      if (kinds.back() != "compute") continue;
      parts.push_back(event["name"].get<std::string>() + " " + event["args"]["step"].dump());
    }
    EXPECT_THAT(parts, ElementsAre("forward 0", "backward 0", "wait 0", "forward 1", "backward 1",
                                   "wait 1"));
    EXPECT_THAT(kinds, Contains("transfer"));
  }
}

// Returns the coordinator's page as JSON, once all ranks have done so many steps.
nlohmann::json PageAfter(const std::string& page, int steps) {
  nlohmann::json status;
  const absl::Time deadline = SteadyNow() + absl::Seconds(20);
  const auto is_done = [steps](const auto& rank) { return rank["steps_done"] == steps; };
  do {
    status = nlohmann::json::parse(HttpGet(page, "/status.json").value().body);
  } while (!absl::c_all_of(status["ranks"], is_done) && SteadyNow() < deadline);
  return status;
}

v1::StatusReply StatusOf(const std::string& address) {
  grpc::ClientContext context;
  v1::StatusReply reply;
  const auto stub = v1::Status::NewStub(MakeChannel(address));
  const grpc::Status status = stub->Get(&context, {}, &reply);
  EXPECT_TRUE(status.ok()) << address << ": " << status.error_message();
  return reply;
}

// Runs two ranks that host a page. Calls `look` on rank 0 after three steps, before the end.
void RunWithPage(const GroupOptions& options,
                 const std::function<void(const nlohmann::json& status)>& look) {
  GroupOptions of_run = options;
  of_run.coordinator = UnusedAddress();
  of_run.coordinator_metrics = "127.0.0.1:0";
  of_run.world_size = kRanks;
  const auto train = [&](int rank) {
    GroupOptions own = of_run;
    own.rank = rank;
    if (rank == 1) {
      own.metrics = "127.0.0.1:0";
      own.listen = "127.0.0.2:0";
      own.advertise = "127.0.0.2";
    }
    const auto group = init_process_group(own);
    Net net(0);
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      ddp.report_loss(step + 0.25 * rank, 5);
      LossOf(net, BatchOf(step)).backward();
    }
    if (rank == 0) look(PageAfter(group->page(), 3));
    group->barrier();  // so that rank 1 is there until then
    group->close();
  };
  auto other = std::async(std::launch::async, [&train] { train(1); });
  train(0);
  other.get();
}

TEST(Ddp, Page_AfterSomeSteps_ShowsTheSettingsAndEachRank) {
  GroupOptions options;
  options.name = "my program";
  options.backend = "ring";
  options.wire = "bf16";
  RunWithPage(options, [](const nlohmann::json& status) {
    EXPECT_EQ(status["settings"], nlohmann::json::parse(R"({
        "sync": "ddp", "backend": "ring", "wire": "bf16", "compress": "none",
        "compress-warmup": "0", "model": "my program", "optimizer": "of the program"})"));
    for (const int rank : {0, 1}) {
      const nlohmann::json& shown = status["ranks"][static_cast<size_t>(rank)];
      EXPECT_EQ(shown["pid"], getpid());
      EXPECT_EQ(shown["loss"], 2 + 0.25 * rank);
      EXPECT_EQ(shown["samples"], 5);
      EXPECT_GT(shown["peak_memory_bytes"], 1e6);
      EXPECT_EQ(shown["metrics"] == "", rank == 0);
    }
    EXPECT_THAT(status["ranks"][1]["address"].get<std::string>(), StartsWith("127.0.0.2:"));
    const std::string metrics = status["ranks"][1]["metrics"];
    EXPECT_EQ(HttpGet(metrics, "/readyz").value().code, 200);
    EXPECT_THAT(HttpGet(metrics, "/metrics").value().body,
                AllOf(HasSubstr("\ngradwire_workers 2\n"), HasSubstr("\ngradwire_generation 1\n"),
                      HasSubstr("\ngradwire_step 2\n")));
  });
}

// Returns the number of connections that peers have made to a server of this host.
int ConnectionsTo(const std::string& address) {
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  int connections = 0;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      const bool is_open = state == "01";
      if (is_open && std::stoi(local.substr(local.find(':') + 1), nullptr, 16) == port) {
        ++connections;
      }
    }
  }
  return connections;
}

TEST(Ddp, SeveralConnections_AreMadeToEachPeer) {
  std::vector<int> made;
  for (const int connections : {1, 4}) {
    GroupOptions options;
    options.backend = "sharded";
    options.shared_memory = "off";
    options.connections = connections;
    RunWithPage(options, [&made](const nlohmann::json& status) {
      made.push_back(ConnectionsTo(status["ranks"][1]["address"]));
    });
  }
  EXPECT_EQ(made[1] - made[0], 3) << made[0];
}

TEST(Ddp, Status_OfARank_IsThatOfItsPartInTheRun) {
  GroupOptions options;
  options.name = "my program";
  RunWithPage(options, [](const nlohmann::json& status) {
    v1::StatusReply reply;
    const absl::Time deadline = SteadyNow() + absl::Seconds(20);
    do {  // the coordinator hears of a step first
      reply = StatusOf(status["ranks"][1]["address"]);
    } while (reply.ranks_size() == 1 && reply.ranks(0).steps_done() < 3 && SteadyNow() < deadline);
    EXPECT_EQ(reply.program(), "my program");
    EXPECT_EQ(reply.version(), GRADWIRE_VERSION);
    EXPECT_EQ(absl::BytesToHexString(reply.run_id()), status["run"]);
    EXPECT_EQ(reply.epoch(), status["epoch"]);
    EXPECT_EQ(reply.generation(), status["generation"]);
    EXPECT_EQ(reply.world_size(), kRanks);
    EXPECT_EQ(reply.state(), "running");
    ASSERT_EQ(reply.ranks_size(), 1);
    const v1::RankStatus& rank = reply.ranks(0);
    EXPECT_EQ(rank.rank(), 1u);
    EXPECT_EQ(rank.address(), status["ranks"][1]["address"]);
    EXPECT_EQ(rank.steps_done(), 3u);
    EXPECT_EQ(rank.last_step().step(), 2u);
    EXPECT_EQ(rank.last_step().rank(), 1u);
    EXPECT_EQ(rank.last_step().loss(), 2.25);
    EXPECT_EQ(rank.last_step().generation(), status["generation"]);
    EXPECT_NEAR(rank.last_step().time(), UnixSeconds(absl::Now()), 60);
  });
}

TEST(Ddp, Destroyed_Backward_StaysLocal) {
  RunRanksWell(kRanks, [](const auto& group) {
    Net net(0);
    { DistributedDataParallel ddp(net, group); }
    if (group->rank() == 0) LossOf(net, BatchOf(0)).backward();
  });
}

TEST(Ddp, GroupClosed_Backward_FailedPrecondition) {
  const Ends ends = RunRanks(1, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    group->close();
    LossOf(net, BatchOf(0)).backward();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace gradwire::testing::distributed_data_parallel_test
