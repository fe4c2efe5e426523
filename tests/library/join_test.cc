#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <gtest/gtest.h>

#include "tests/library/models.h"
#include "tests/library/ranks.h"

namespace gradwire::testing {
namespace {

using ::testing::HasSubstr;

constexpr float kLearningRate = 0.1;

// `batches` steps of SGD; number is rank + 3 * step.
void Train(Net& net, int rank, int batches) {
  torch::optim::SGD sgd(net->parameters(), kLearningRate);
  for (int step = 0; step < batches; ++step) {
    sgd.zero_grad();
    LossOf(net, BatchOf(rank + 3 * step)).backward();
    sgd.step();
  }
}

// What ranks with 1, 2 and 3 batches come to: a rank without one adds zero, and the sum is
// divided by `divisors[step]`.
Net Expected(const std::vector<double>& divisors) {
  Net net(0);
  torch::optim::SGD sgd(net->parameters(), kLearningRate);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    for (int rank = step; rank < 3; ++rank) {
      (LossOf(net, BatchOf(rank + 3 * step)) / divisors[static_cast<size_t>(step)]).backward();
    }
    sgd.step();
  }
  return net;
}

TEST(Join, UnevenBatches_RanksWithoutOnesAddZero) {
  RunRanksWell(3, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    ddp.join([&] { Train(net, group->rank(), group->rank() + 1); });
    ExpectSameParameters(*net, *Expected({3, 3, 3}));
    EXPECT_EQ(ddp.steps(), 3);
  });
}

TEST(Join, DivideByActiveRanks_LateBatchesCountFully) {
  RunRanksWell(3, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    JoinOptions options;
    options.divide_by_initial_world_size = false;
    ddp.join([&] { Train(net, group->rank(), group->rank() + 1); }, options);
    ExpectSameParameters(*net, *Expected({3, 2, 1}));
  });
}

TEST(Join, FindUnusedParameters_RanksWithoutBatchesTakePart) {
  RunRanksWell(3, [](const auto& group) {
    Net net(0);
    DDPOptions options;
    options.find_unused_parameters = true;
    DistributedDataParallel ddp(net, group, options);
    ddp.join([&] { Train(net, group->rank(), group->rank() + 1); });
    ExpectSameParameters(*net, *Expected({3, 3, 3}));
  });
}

TEST(Join, NoBatchesAtAll_ReturnsAndPassesAverageAgain) {
  RunRanksWell(2, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    ddp.join([] {});
    LossOf(net, BatchOf(group->rank())).backward();
    Net whole(0);
    LossOf(whole, BatchesOf({0, 1})).backward();
    ExpectSameGradients(*net, *whole);
  });
}

// The ranks must not take what they know of the first time for the second.
TEST(Join, Again_WithoutBatchesAndThenWithThem_RanksStayEqual) {
  RunRanksWell(2, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    ddp.join([&] { Train(net, group->rank(), 2 - group->rank()); });
    ddp.join([] {});
    ddp.join([&] { Train(net, group->rank(), group->rank() + 1); });
    EXPECT_EQ(ddp.steps(), 4);
    for (const torch::Tensor& parameter : net->parameters()) {
      for (const torch::Tensor& other : group->all_gather(parameter.detach())) {
        EXPECT_TRUE(torch::equal(other, parameter));
      }
    }
  });
}

TEST(Join, Buffers_AreOfTheHighestRankThatHasData) {
  RunRanksWell(2, [](const auto& group) {
    NormNet net;
    DistributedDataParallel ddp(net, group);
    ddp.join([&] {
      for (int step = 0; step <= group->rank(); ++step) {
        net->forward(BatchOf(group->rank() + 2 * step).x).sum().backward();
      }
    });
    NormNet alone;  // rank 1's statistics of both steps
    alone->forward(BatchOf(1).x);
    alone->forward(BatchOf(3).x);
    EXPECT_TRUE(torch::allclose(net->norm->running_mean, alone->norm->running_mean));
  });
}

TEST(Join, LowestRankGoesOnLongest_AllEndWithItsModel) {
  RunRanksWell(3, [](const auto& group) {
    NormNet net;
    DistributedDataParallel ddp(net, group);
    ddp.join([&] {
      for (int step = 0; step < 3 - group->rank(); ++step) {
        net->forward(BatchOf(group->rank() + 3 * step).x).sum().backward();
      }
    });
    NormNet alone;  // statistics of rank 2, then of rank 1, at the end of rank 0
    for (const int batch : {2, 4, 6}) alone->forward(BatchOf(batch).x);
    EXPECT_TRUE(torch::allclose(net->norm->running_mean, alone->norm->running_mean));
  });
}

TEST(Join, ThrowOnEarlyTermination_AllRanksThrowAndTheRunGoesOn) {
  RunRanksWell(2, [](const auto& group) {
    Net net(0);
    DistributedDataParallel ddp(net, group);
    JoinOptions options;
    options.throw_on_early_termination = true;
    try {
      ddp.join([&] { Train(net, group->rank(), group->rank() + 1); }, options);
      ADD_FAILURE() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kAborted);
      EXPECT_THAT(error.what(), HasSubstr("rank 0 has run out of data"));
      EXPECT_EQ(error.step(), 1);
    }
    group->barrier();
    const int64_t steps = ddp.steps();
    net->zero_grad();
    LossOf(net, BatchOf(group->rank())).backward();
    const auto gradients = group->all_gather(net->parameters()[0].grad().clone());
    EXPECT_TRUE(torch::equal(gradients[0], gradients[1]));
    EXPECT_EQ(ddp.steps(), steps + 1);
  });
}

// Else the ranks' models drift apart, or one rank throws and the others wait for it.
TEST(Join, OtherOptionsOnOneRank_AllFail) {
  for (const bool throws : {false, true}) {
    const Ends ends = RunRanks(2, [throws](const auto& group) {
      Net net(0);
      DistributedDataParallel ddp(net, group);
      JoinOptions options;
      if (group->rank() == 1 && throws) options.throw_on_early_termination = true;
      if (group->rank() == 1 && !throws) options.divide_by_initial_world_size = false;
      ddp.join([&] { Train(net, group->rank(), 2); }, options);
    });
    for (const auto& end : ends) {
      ASSERT_TRUE(end.has_value());
      EXPECT_THAT(end->what(), HasSubstr("other JoinOptions"));
    }
  }
}

}  // namespace
}  // namespace gradwire::testing
