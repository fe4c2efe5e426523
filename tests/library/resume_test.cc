// attach, resume and end_step: all ranks of a run end at once, and the same program continues it
// from a checkpoint with the bits of an undisturbed run.
#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/library/models.h"
#include "tests/library/ranks.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing::resume_test {
namespace {

using ::testing::HasSubstr;
using Group = std::shared_ptr<ProcessGroup>;

constexpr int kRanks = 2;
constexpr int64_t kSteps = 6;
constexpr int64_t kEvery = 4;
constexpr int64_t kLastStep = 5;  // of a run that ends early; the checkpoint is before step 4

// With BatchNorm, two matrices that are worth factors of rank 1, and a parameter without elements.
struct TrainedImpl : torch::nn::Module {
  TrainedImpl()
      : first(register_module("first", Linear(24, 32))),
        norm(register_module("norm", torch::nn::BatchNorm1d(32))),
        last(register_module("last", Linear(32, 16))),
        empty(register_parameter("empty", torch::empty({0, 8}))) {
    const torch::NoGradGuard values_only;
    int64_t next = 0;
    for (torch::Tensor& parameter : parameters()) {
      const torch::Tensor numbers = torch::arange(next, next + parameter.numel());
      parameter.copy_(0.1 * torch::sin(numbers.to(torch::kFloat)).view(parameter.sizes()));
      next += parameter.numel();
    }
  }
  torch::Tensor Loss(int64_t number) {
    const torch::Tensor x = torch::cos(torch::arange(number, number + 5 * 24).to(torch::kFloat));
    const torch::Tensor hidden = norm->forward(first->forward(x.view({5, 24})));
    return torch::tanh(last->forward(torch::tanh(hidden))).square().sum() + empty.sum();
  }
  Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  Linear last{nullptr};
  torch::Tensor empty;  // as of a feature that is switched off
};
TORCH_MODULE(Trained);

struct Program {
  std::string name;
  std::string optimizer = "Adam";
  std::string compress = "none";
  bool broadcast = true;
  double bucket_cap_mb = 1;
};

std::unique_ptr<torch::optim::Optimizer> OptimizerOf(const std::string& name, Trained& net) {
  if (name == "Adam") return std::make_unique<torch::optim::Adam>(net->parameters(), 0.01);
  if (name == "RMSprop") return std::make_unique<torch::optim::RMSprop>(net->parameters(), 0.01);
  std::vector<torch::optim::OptimizerParamGroup> groups = {{net->first->parameters()},
                                                           {net->last->parameters()}};
  return std::make_unique<torch::optim::SGD>(std::move(groups),
                                             torch::optim::SGDOptions(0.01).momentum(0.9));
}

// A rank's values after its last step.
using Values = std::vector<torch::Tensor>;

bool AreEqual(const Values& a, const Values& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i) equal = a[i].equal(b[i]);
  return equal;
}

class ResumeTest : public ::testing::Test {
 protected:
  ~ResumeTest() override {
    unsetenv("GRADWIRE_RUN_DIR");
    unsetenv("GRADWIRE_CHECKPOINT_EVERY");
  }

  void KeepCheckpoints() {
    setenv("GRADWIRE_RUN_DIR", folder_.path().c_str(), 1);
    setenv("GRADWIRE_CHECKPOINT_EVERY", std::to_string(kEvery).c_str(), 1);
  }

  bool HasCheckpoint(int64_t step) const {
    return std::filesystem::exists(folder_.path() + "/step-00000000000" + std::to_string(step));
  }

  // Returns after the coordinator has published the checkpoint before `step`, if it makes one: a
  // copy that is still in use would be in the way of the next.
  void AwaitCheckpoint(int64_t step) const {
    if (std::getenv("GRADWIRE_RUN_DIR") == nullptr || step % kEvery != 0) return;
    for (int i = 0; i < 1000 && !HasCheckpoint(step); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(HasCheckpoint(step));
  }

  struct Ran {
    Ends ends;
    std::vector<Values> values = std::vector<Values>(kRanks);  // by rank
    std::vector<int64_t> first = std::vector<int64_t>(kRanks);
    std::vector<std::vector<int64_t>> committed = std::vector<std::vector<int64_t>>(kRanks);
    std::vector<int64_t> counted = std::vector<int64_t>(kRanks);  // by the program
  };

  // Trains up to `steps`; all ranks end before step `until` without closing the group.
  Ran Run(const Program& program, int64_t until = kSteps) const {
    Ran ran;
    GroupOptions options;
    options.compress = program.compress;
    ran.ends = RunRanks(
        kRanks, [&](const Group& group) { Train(program, group, until, &ran); }, options);
    return ran;
  }

 private:
  void Train(const Program& program, const Group& group, int64_t until, Ran* ran) const {
    const auto rank = static_cast<size_t>(group->rank());
    Trained net;
    DDPOptions options;
    options.broadcast_buffers = program.broadcast;
    options.bucket_cap_mb = program.bucket_cap_mb;
    DistributedDataParallel ddp(net, group, options);
    const auto optimizer = OptimizerOf(program.optimizer, net);
    int64_t& counted = ran->counted[rank];
    ddp.attach(*optimizer);
    ddp.attach("count",
               {[&] { return std::string(static_cast<size_t>(counted), 'x'); },
                [&](const std::string& bytes) { counted = static_cast<int64_t>(bytes.size()); },
                [&](int64_t step) { ran->committed[rank].push_back(step); }});
    ran->first[rank] = ddp.resume();
    for (int64_t step = ran->first[rank]; step < until; ++step) {
      net->zero_grad();  // also of the parameters that this optimizer leaves out
      net->Loss(1000 * step + 77 * group->rank()).backward();
      optimizer->step();
      counted += group->rank() + 1;
      ddp.end_step();
      AwaitCheckpoint(step + 1);
    }
    EXPECT_EQ(ddp.steps(), until - ran->first[rank]);
    if (until < kSteps) {
      throw Error(ErrorCode::kAborted, group->rank(), until, "the test ends the run");
    }
    for (const torch::Tensor& value : net->parameters()) {
      ran->values[rank].push_back(value.detach().clone());
    }
    for (const torch::Tensor& value : net->buffers()) ran->values[rank].push_back(value.clone());
    group->close();
  }

  TempDir folder_;
};

void ExpectWell(const Ends& ends) {
  for (const auto& end : ends) EXPECT_FALSE(end.has_value()) << end->what();
}

class ResumeOfTest : public ResumeTest, public ::testing::WithParamInterface<Program> {};

TEST_P(ResumeOfTest, RunThatEndedEarly_Continues_WithTheBitsOfTheUndisturbed) {
  const Ran undisturbed = Run(GetParam());
  ExpectWell(undisturbed.ends);
  KeepCheckpoints();
  Run(GetParam(), kLastStep);
  const Ran resumed = Run(GetParam());
  ExpectWell(resumed.ends);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(undisturbed.first[rank], 0);
    EXPECT_EQ(resumed.first[rank], 4);
    EXPECT_EQ(resumed.counted[rank], undisturbed.counted[rank]);
    EXPECT_TRUE(AreEqual(resumed.values[rank], undisturbed.values[rank])) << "rank " << rank;
    EXPECT_THAT(resumed.committed[rank], ::testing::Contains(kSteps));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ResumeOfTest,
                         ::testing::Values(Program{"Adam"}, Program{"GroupsOfSgd", "SGD"},
                                           Program{"RMSprop", "RMSprop"},
                                           Program{"BuffersOfEachRank", "SGD", "none", false},
                                           Program{"Int8", "Adam", "int8"},
                                           Program{"TopK", "SGD", "top-k:0.1"},
                                           Program{"PowerSgd", "SGD", "powersgd:1"}),
                         [](const auto& info) { return info.param.name; });

TEST_F(ResumeTest, RunThatEndedWell_KeepsItsLastState) {
  KeepCheckpoints();
  const Ran ran = Run({"", "Adam"});
  EXPECT_TRUE(HasCheckpoint(kSteps));
  const Ran again = Run({"", "Adam"});
  ExpectWell(again.ends);
  EXPECT_EQ(again.first[0], kSteps);
  EXPECT_TRUE(AreEqual(again.values[1], ran.values[1]));
}

TEST_F(ResumeTest, Metrics_BeforeTheFirstStepOfAResumedRun_HaveTheLastStepOfTheCheckpoint) {
  KeepCheckpoints();
  RunRanksWell(1, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ddp.attach(sgd);
    ddp.resume();
    for (int step = 0; step < 3; ++step) ddp.end_step();
    group->close();
  });
  GroupOptions options;
  options.metrics = UnusedAddress();
  RunRanksWell(
      1,
      [&options](const Group&) {
        const std::string page = HttpGet(options.metrics, "/metrics").value().body;
        EXPECT_THAT(page, HasSubstr("\ngradwire_step 2\n"));
      },
      options);
}

TEST_F(ResumeTest, OtherOptimizer_IsRefused) {
  KeepCheckpoints();
  Run({"", "Adam"}, kLastStep);
  const Ends ends = Run({"", "SGD"}).ends;
  ASSERT_TRUE(ends[0].has_value() && ends[1].has_value());
  // The run ends with the first of them.
  EXPECT_TRUE(ends[0]->code() == ErrorCode::kInvalidArgument ||
              ends[1]->code() == ErrorCode::kInvalidArgument);
  EXPECT_THAT(ends[0]->what(),
              HasSubstr("got SGD [first.weight, first.bias] [last.weight, last.bias]"
                        ", expected Adam [empty, first.weight"));
}

// Codecs cut a bucket into units.
TEST_F(ResumeTest, OtherBucketsWithACodec_AreRefused) {
  KeepCheckpoints();
  Program program{"", "Adam", "int8"};
  Run(program, kLastStep);
  program.bucket_cap_mb = 0.001;
  const Ends ends = Run(program).ends;
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_THAT(ends[0]->what(),
              HasSubstr("resume: parameters in each bucket: got 2, 4, expected 6, as"));
}

TEST_F(ResumeTest, OtherBucketsWithoutACodec_Continue) {
  KeepCheckpoints();
  Program program{"", "Adam"};
  Run(program, kLastStep);
  program.bucket_cap_mb = 0.001;
  ExpectWell(Run(program).ends);
}

void ExpectRefused(const std::string& expected, const std::function<void()>& call,
                   ErrorCode code = ErrorCode::kFailedPrecondition) {
  try {
    call();
    ADD_FAILURE() << "expected '" << expected << "'";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(expected));
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

TEST_F(ResumeTest, CallsInAnotherOrder_AreRefused) {
  RunRanksWell(1, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ExpectRefused("resume: got no optimizer", [&] { ddp.resume(); });
    ExpectRefused("end_step: got it before resume()", [&] { ddp.end_step(); });
    ddp.attach(sgd);
    ExpectRefused("attach: got a second optimizer", [&] { ddp.attach(sgd); });
    ddp.resume();
    ExpectRefused("resume: got it after resume()", [&] { ddp.resume(); });
    ExpectRefused("attach: got it after resume()", [&] { ddp.attach(sgd); });
    ddp.end_step();
    group->close();
    ExpectRefused("the process group is closed", [&] { ddp.end_step(); });
  });
  RunRanksWell(1, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    net->Loss(0).backward();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ExpectRefused("attach: got it after the first backward pass", [&] { ddp.attach(sgd); });
  });
}

TEST_F(ResumeTest, UnsuitableOptimizersAndHooks_AreRefused) {
  RunRanksWell(1, [](const Group& group) {
    const auto wrong = ErrorCode::kInvalidArgument;
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::LBFGS lbfgs(net->parameters());
    ExpectRefused(
        "expected one of SGD, Adam, AdamW, RMSprop, Adagrad", [&] { ddp.attach(lbfgs); }, wrong);
    torch::optim::SGD sgd({torch::zeros({2})}, 0.1);
    ExpectRefused(
        "a parameter that is not the module's", [&] { ddp.attach(sgd); }, wrong);
    const auto capture = [] { return std::string(); };
    const auto restore = [](const std::string&) {};
    ExpectRefused(
        "hooks 'a' without restore",
        [&] {
          ddp.attach("a", {capture, nullptr, nullptr});
        },
        wrong);
    ExpectRefused(
        "the name 'a/b'",
        [&] {
          ddp.attach("a/b", {capture, restore, nullptr});
        },
        wrong);
  });
}

TEST_F(ResumeTest, HooksWithoutANewNameOrAFunction_AreRefused) {
  RunRanksWell(1, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    const StateHooks hooks = {[] { return std::string(); }, [](const std::string&) {}, nullptr};
    const auto refused = [&ddp](const std::string& expected, const std::string& name,
                                const StateHooks& of_name) {
      ExpectRefused(
          expected, [&] { ddp.attach(name, of_name); }, ErrorCode::kInvalidArgument);
    };
    ddp.attach("a", hooks);
    refused("the name 'a'", "a", hooks);
    refused("the name ''", "", hooks);
    StateHooks without = hooks;
    without.capture = nullptr;
    refused("hooks 'b' without capture", "b", without);
    ddp.attach("b", hooks);
  });
}

TEST_F(ResumeTest, OtherHooksThanThoseOfTheCheckpoint_AreRefused) {
  KeepCheckpoints();
  Run({"", "Adam"}, kLastStep);  // with a hook 'count'
  const Ends ends = RunRanks(kRanks, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    const auto adam = OptimizerOf("Adam", net);
    ddp.attach(*adam);
    ddp.resume();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_THAT(ends[0]->what(), HasSubstr("resume: names of hooks: got '', expected 'count'"));
}

// With buffers of these types, all zero.
struct TypesImpl : torch::nn::Module {
  explicit TypesImpl(const std::vector<torch::ScalarType>& types)
      : last(register_module("last", Linear(2, 2))) {
    for (const torch::ScalarType type : types) {
      register_buffer(std::string("of") + c10::toString(type), torch::zeros({3}, type));
    }
  }
  Linear last{nullptr};
};
TORCH_MODULE(Types);

// Else each checkpoint would fail when it is written.
TEST_F(ResumeTest, Resume_BufferOfComplexNumbers_IsRefused) {
  const auto run = [] {
    return RunRanks(1, [](const Group& group) {
      Types net(std::vector<torch::ScalarType>{torch::kFloat, torch::kComplexFloat});
      DistributedDataParallel ddp(net, group);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      ddp.attach(sgd);
      ddp.resume();
    });
  };
  ExpectWell(run());  // without a run directory
  KeepCheckpoints();
  const Ends ends = run();
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(ends[0]->what(), HasSubstr("resume: type of 'ofComplexFloat': got ComplexFloat"));
}

TEST_F(ResumeTest, Resume_BuffersOfAllOtherTypes_HaveTheirValues) {
  KeepCheckpoints();
  for (const int64_t first : {0, 1}) {
    RunRanksWell(1, [first](const Group& group) {
      Types net(std::vector<torch::ScalarType>{torch::kBool, torch::kByte, torch::kChar,
                                               torch::kShort, torch::kInt, torch::kLong,
                                               torch::kHalf, torch::kBFloat16, torch::kDouble});
      DistributedDataParallel ddp(net, group);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      ddp.attach(sgd);
      EXPECT_EQ(ddp.resume(), first);
      for (torch::Tensor& buffer : net->buffers()) {
        if (first == 0) buffer.fill_(1);
        EXPECT_TRUE(buffer.eq(1).all().item<bool>()) << buffer.scalar_type();
      }
      if (first == 0) ddp.end_step();
      group->close();
    });
  }
}

// Of a program's hook.
struct HookError : std::exception {};

TEST_F(ResumeTest, Resume_RestoreThrows_GroupForgetsTheModelThatEnds) {
  KeepCheckpoints();
  Run({"", "Adam"}, kLastStep);  // with a hook 'count'
  RunRanksWell(kRanks, [](const Group& group) {
    Trained net;
    const auto resume = [&] {
      DistributedDataParallel ddp(net, group);
      const auto adam = OptimizerOf("Adam", net);
      ddp.attach(*adam);
      ddp.attach("count", {[] { return std::string(); },
                           [](const std::string&) { throw HookError(); }, nullptr});
      ddp.resume();
    };
    EXPECT_THROW(resume(), HookError);
    EXPECT_NO_THROW(DistributedDataParallel(net, group));  // else the group has several models
    group->close();
  });
}

TEST_F(ResumeTest, Close_RestoreHasThrown_KeepsNoState) {
  KeepCheckpoints();
  for (const bool resumes : {false, true}) {
    RunRanksWell(1, [resumes](const Group& group) {
      Trained net;
      DistributedDataParallel ddp(net, group);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      ddp.attach(sgd);
      bool captured = false, restored = false;
      const auto capture = [&captured] {
        captured = true;
        return std::string();
      };
      const auto restore = [&restored](const std::string&) {
        restored = true;
        throw HookError();
      };
      ddp.attach("count", {capture, restore, nullptr});
      try {
        ddp.resume();
        ddp.end_step();
      } catch (const HookError&) {
      }
      group->close();
      EXPECT_EQ(restored, resumes);
      EXPECT_EQ(captured, !resumes);
    });
  }
}

TEST_F(ResumeTest, Close_CaptureThrows_OtherRanksHearOfIt) {
  KeepCheckpoints();
  const Ends ends = RunRanks(kRanks, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ddp.attach(sgd);
    const auto capture = [rank = group->rank()]() -> std::string {
      if (rank == 1) throw HookError();
      return "";
    };
    ddp.attach("count", {capture, [](const std::string&) {}, nullptr});
    ddp.resume();
    ddp.end_step();
    if (group->rank() == 0) return group->close();
    EXPECT_THROW(group->close(), HookError);
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_THAT(ends[0]->what(), HasSubstr("an exception ended the program's use of the group"));
  EXPECT_FALSE(ends[1].has_value()) << ends[1]->what();
}

// Else the other rank would still have its copy when the next one is due.
TEST_F(ResumeTest, EndStep_CaptureThrowsOnce_NextCheckpointIsMade) {
  KeepCheckpoints();
  RunRanksWell(kRanks, [this](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ddp.attach(sgd);
    bool throws = group->rank() == 1;
    const auto capture = [&throws]() -> std::string {
      if (std::exchange(throws, false)) throw HookError();
      return "";
    };
    ddp.attach("once", {capture, [](const std::string&) {}, nullptr});
    for (int64_t step = ddp.resume(); step < 2 * kEvery; ++step) {
      net->zero_grad();
      net->Loss(step).backward();
      sgd.step();
      const bool fails = throws && step + 1 == kEvery;
      try {
        ddp.end_step();
        EXPECT_FALSE(fails) << step;
      } catch (const HookError&) {
        EXPECT_TRUE(fails) << step;
      }
      // Long enough for the message that the other rank's copy is given up.
      if (step == kEvery) std::this_thread::sleep_for(std::chrono::seconds(2));
    }
    AwaitCheckpoint(2 * kEvery);
    group->close();
  });
  EXPECT_FALSE(HasCheckpoint(kEvery));
}

// Else a resumed run would go on without the state of the new group.
TEST_F(ResumeTest, EndStep_OptimizerHasANewGroup_IsRefused) {
  KeepCheckpoints();
  RunRanksWell(1, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->first->parameters(), 0.1);
    ddp.attach(sgd);
    ddp.resume();
    ddp.end_step();
    sgd.add_param_group(torch::optim::OptimizerParamGroup(net->last->parameters()));
    ExpectRefused("got an optimizer with groups of 2, 2 parameters, expected 2, as in attach",
                  [&] { ddp.end_step(); });
  });
}

TEST_F(ResumeTest, AnotherModelAfterResume_IsRefused) {
  const Ends ends = RunRanks(1, [](const Group& group) {
    Trained one, other;
    DistributedDataParallel first(one, group);
    torch::optim::SGD sgd(one->parameters(), 0.1);
    first.attach(sgd);
    first.resume();
    DistributedDataParallel second(other, group);
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_THAT(ends[0]->what(), HasSubstr("got several models in the group"));
}

TEST_F(ResumeTest, SeveralModels_AreRefused) {
  const Ends ends = RunRanks(1, [](const Group& group) {
    Trained one, other;
    DistributedDataParallel first(one, group), second(other, group);
    torch::optim::SGD sgd(one->parameters(), 0.1);
    first.attach(sgd);
    first.resume();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_THAT(ends[0]->what(), HasSubstr("got several models in the group"));
}

TEST_F(ResumeTest, PassWithoutResume_InARunThatContinues_IsRefused) {
  KeepCheckpoints();
  Run({"", "Adam"}, kLastStep);
  const Ends ends = RunRanks(kRanks, [](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    net->Loss(0).backward();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_THAT(ends[0]->what(), HasSubstr("continues before step 4, expected resume() first"));
}

TEST_F(ResumeTest, PassWithoutResume_InARunWithAFolder_WarnsOnceThatThereAreNoCheckpoints) {
  const std::string warning = "there will be no checkpoints, because the program trains";
  for (const bool keeps : {false, true}) {
    if (keeps) KeepCheckpoints();
    ::testing::internal::CaptureStderr();
    RunRanksWell(1, [](const Group& group) {
      Trained net;
      DistributedDataParallel ddp(net, group);
      for (int64_t step = 0; step < 2; ++step) net->Loss(step).backward();
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find(warning) != std::string::npos, keeps) << log;
    EXPECT_EQ(log.find(warning), log.rfind(warning)) << log;
  }
}

// The coordinator publishes no parameter that is infinite.
TEST_F(ResumeTest, CheckpointThatIsNotWritten_IsNotCommitted) {
  KeepCheckpoints();
  std::vector<int64_t> committed;
  RunRanks(1, [&](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ddp.attach(sgd);
    ddp.attach("watch", {[] { return std::string(); }, [](const std::string&) {},
                         [&](int64_t step) { committed.push_back(step); }});
    for (int64_t step = ddp.resume(); step < kSteps; ++step) {
      net->zero_grad();
      net->Loss(step).backward();
      {
        const torch::NoGradGuard values_only;
        net->last->bias.fill_(std::numeric_limits<float>::infinity());
      }
      ddp.end_step();
      if (step + 1 == kEvery) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    group->close();
  });
  EXPECT_FALSE(HasCheckpoint(kEvery));
  EXPECT_THAT(committed, ::testing::IsEmpty());
}

// While the run goes on, not only at its end.
TEST_F(ResumeTest, CheckpointThatIsWritten_IsCommittedByALaterStep) {
  KeepCheckpoints();
  RunRanksWell(1, [](const Group& group) {
    std::vector<int64_t> committed;
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ddp.attach(sgd);
    ddp.attach("watch", {[] { return std::string(); }, [](const std::string&) {},
                         [&](int64_t step) { committed.push_back(step); }});
    for (int64_t step = ddp.resume(); step < 1000 && committed.empty(); ++step) {
      net->zero_grad();
      net->Loss(step).backward();
      sgd.step();
      ddp.end_step();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_THAT(committed, ::testing::ElementsAre(kEvery));
  });
}

// Trains on one rank with a state that takes so long to write that the copy before step kEvery is
// still in use when the last step ends. Returns the steps that were committed.
std::vector<int64_t> TrainWithLargeState(int64_t steps) {
  std::vector<int64_t> committed;
  RunRanksWell(1, [&](const Group& group) {
    Trained net;
    DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    ddp.attach(sgd);
    ddp.attach("large", {[] { return std::string(64 << 20, 'x'); }, [](const std::string&) {},
                         [&](int64_t step) { committed.push_back(step); }});
    for (int64_t step = ddp.resume(); step < steps; ++step) {
      net->zero_grad();
      net->Loss(step).backward();
      sgd.step();
      ddp.end_step();
    }
    group->close();
  });
  return committed;
}

TEST_F(ResumeTest, Close_LastStepIsDueWhileAnEarlierCopyIsInUse_KeepsItsState) {
  KeepCheckpoints();
  TrainWithLargeState(2 * kEvery);
  EXPECT_TRUE(HasCheckpoint(kEvery));
  EXPECT_TRUE(HasCheckpoint(2 * kEvery));
}

TEST_F(ResumeTest, Close_EarlierCopyIsWrittenMeanwhile_BothAreCommitted) {
  KeepCheckpoints();
  EXPECT_THAT(TrainWithLargeState(kSteps), ::testing::ElementsAre(kEvery, kSteps));
}

// Else each rank would wait at the end for a checkpoint that none can make.
TEST_F(ResumeTest, Close_RanksWithOtherNumbersOfSteps_WaitsForNoCheckpoint) {
  KeepCheckpoints();
  GroupOptions options;
  options.step_timeout_seconds = 60;
  const auto start = std::chrono::steady_clock::now();
  RunRanksWell(
      kRanks,
      [](const Group& group) {
        Trained net;
        DistributedDataParallel ddp(net, group);
        torch::optim::SGD sgd(net->parameters(), 0.1);
        ddp.attach(sgd);
        ddp.resume();
        for (int step = 0; step <= group->rank(); ++step) ddp.end_step();
        group->close();
      },
      options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_FALSE(HasCheckpoint(1));
  EXPECT_FALSE(HasCheckpoint(2));
}

TEST_F(ResumeTest, ModelEndsBeforeTheGroupIsClosed_WarnsThatItsLastStateIsNotKept) {
  KeepCheckpoints();
  for (const int64_t steps : {kEvery, kSteps}) {
    ::testing::internal::CaptureStderr();
    RunRanksWell(1, [&](const Group& group) {
      Trained net;
      DistributedDataParallel ddp(net, group);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      ddp.attach(sgd);
      for (int64_t step = ddp.resume(); step < steps; ++step) {
        ddp.end_step();
        AwaitCheckpoint(step + 1);
      }
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::string warning = "there will be no checkpoint before step 6; call close() first";
    EXPECT_EQ(log.find(warning) != std::string::npos, steps == kSteps) << log;
    EXPECT_EQ(HasCheckpoint(steps), steps == kEvery);
  }
}

// As rank 0 does that tests the model at the end, while the others close at once.
TEST_F(ResumeTest, Close_RankComesLaterThanTheStepTimeout_OthersWaitAndKeepTheState) {
  KeepCheckpoints();
  GroupOptions options;
  options.step_timeout_seconds = 5;
  RunRanksWell(
      kRanks,
      [](const Group& group) {
        Trained net;
        DistributedDataParallel ddp(net, group);
        torch::optim::SGD sgd(net->parameters(), 0.1);
        ddp.attach(sgd);
        ddp.resume();
        ddp.end_step();
        if (group->rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(8));
        group->close();
      },
      options);
  EXPECT_TRUE(HasCheckpoint(1));
}

// Random numbers of torch belong to the process, so there is one rank.
TEST_F(ResumeTest, RandomNumbers_Continue) {
  KeepCheckpoints();
  std::vector<torch::Tensor> drawn;
  const auto run = [&](int64_t until) {
    return RunRanks(1, [&](const Group& group) {
      Trained net;
      DistributedDataParallel ddp(net, group);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      ddp.attach(sgd);
      ddp.attach(
          "draws",
          {[] { return std::string("x"); }, [](const std::string&) { torch::rand({5}); }, {}});
      for (int64_t step = ddp.resume(); step < until; ++step) {
        net->Loss(step).backward();
        drawn.push_back(torch::rand({3}));
        ddp.end_step();
        AwaitCheckpoint(step + 1);
      }
      if (until < kSteps) {
        throw Error(ErrorCode::kAborted, 0, until, "the test ends the run");
      }
    });
  };
  run(kLastStep);
  ExpectWell(run(kSteps));
  ASSERT_EQ(drawn.size(), 7u);
  EXPECT_TRUE(drawn[5].equal(drawn[4]));
}

TEST_F(ResumeTest, MeansOfAllocatedTensors_WithoutSharedMemory_Continue) {
  KeepCheckpoints();
  GroupOptions options;
  options.backend = "ring";
  options.shared_memory = "off";
  const auto run = [&](int64_t until) {
    const auto train = [&](const Group& group) {
      Trained net;
      DistributedDataParallel ddp(net, group);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      ddp.attach(sgd);
      torch::Tensor term = group->allocate({4});
      for (int64_t step = ddp.resume(); step < until; ++step) {
        net->zero_grad();
        net->Loss(step).backward();
        sgd.step();
        term.fill_(static_cast<double>(step + group->rank()));
        const torch::Tensor mean = group->mean(term);
        EXPECT_TRUE(mean.equal(torch::full({4}, static_cast<double>(step) + 0.5))) << step;
        ddp.end_step();
        AwaitCheckpoint(step + 1);
      }
      if (until < kSteps) {
        throw Error(ErrorCode::kAborted, group->rank(), until, "the test ends the run");
      }
      group->close();
    };
    return RunRanks(kRanks, train, options);
  };
  run(kLastStep);
  ASSERT_TRUE(HasCheckpoint(kEvery));
  ExpectWell(run(kSteps));
}

}  // namespace
}  // namespace gradwire::testing::resume_test
