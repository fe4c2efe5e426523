// ProcessGroup::allocate and mean: tensors in memory that the ranks share, or, without it, in their
// own.

#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/library/ranks.h"

namespace gradwire::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int64_t kElements = 300001;  // each rank folds a part of it

// How a tensor's memory is mapped, as /proc/self/maps says: "rw-s …"; empty if it is not mapped.
std::string MappingOf(const torch::Tensor& tensor) {
  const auto at = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const std::vector<std::string> ends = absl::StrSplit(words[0], '-');
    if (at >= std::stoull(ends[0], nullptr, 16) && at < std::stoull(ends[1], nullptr, 16)) {
      return words[1];
    }
  }
  return "";
}

GroupOptions With(const std::string& backend, const std::string& shared_memory = "auto") {
  GroupOptions options;
  options.backend = backend;
  options.shared_memory = shared_memory;
  return options;
}

torch::Tensor OfRank(int rank) { return torch::arange(kElements, torch::kFloat) * (rank + 1.0f); }

TEST(AllocatedTensors, Mean_ThreeRanks_IsTheFoldAndLeavesTheTensor) {
  RunRanksWell(kRanks, [](const auto& group) {
    torch::Tensor tensor = group->allocate({kElements});
    EXPECT_EQ(tensor.abs().max().template item<float>(), 0);
    for (int step = 1; step <= 3; ++step) {
      tensor.copy_(OfRank(group->rank()) * step);
      const torch::Tensor mean = group->mean(tensor);
      EXPECT_TRUE(torch::allclose(mean, OfRank(1) * step, 1e-6)) << step;
      EXPECT_TRUE(torch::equal(tensor, OfRank(group->rank()) * step));
      for (const torch::Tensor& other : group->all_gather(mean)) {
        EXPECT_TRUE(torch::equal(other, mean));
      }
    }
  });
}

TEST(AllocatedTensors, Mean_WithAndWithoutSharedMemory_SameBits) {
  torch::manual_seed(7);
  const torch::Tensor values = torch::randn({kRanks, kElements});
  std::vector<torch::Tensor> means;
  for (const GroupOptions& options : {With("memory"), With("auto", "off"), With("ring")}) {
    torch::Tensor* const kept = &means.emplace_back();
    const auto body = [&values, kept](const auto& group) {
      torch::Tensor tensor = group->allocate({kElements});
      tensor.copy_(values[group->rank()]);
      const torch::Tensor mean = group->mean(tensor);
      if (group->rank() == 0) *kept = mean.clone();
    };
    RunRanksWell(kRanks, body, options);
  }
  EXPECT_TRUE(torch::equal(means[0], means[1]));
  EXPECT_TRUE(torch::equal(means[0], means[2]));
}

// Nothing is copied in or out: both are shared memory, and the mean is the same in each call.
TEST(AllocatedTensors, Allocate_RanksShareMemory_TensorAndMeanLieInIt) {
  RunRanksWell(
      2,
      [](const auto& group) {
        torch::Tensor tensor = group->allocate({kElements});
        const torch::Tensor first = group->mean(tensor);
        EXPECT_THAT(MappingOf(tensor), HasSubstr("rw-s"));
        EXPECT_THAT(MappingOf(tensor), HasSubstr("memfd:gradwire"));
        EXPECT_THAT(MappingOf(first), HasSubstr("r--s"));
        EXPECT_EQ(group->mean(tensor).data_ptr(), first.data_ptr());
      },
      With("memory"));
}

TEST(AllocatedTensors, Allocate_NoSharedMemory_OrdinaryTensor) {
  RunRanksWell(
      2,
      [](const auto& group) {
        torch::Tensor tensor = group->allocate({kElements});
        EXPECT_THAT(MappingOf(tensor), ::testing::Not(HasSubstr("memfd")));
      },
      With("auto", "off"));
}

TEST(AllocatedTensors, AllReduce_OfOne_ChangesItInPlace) {
  RunRanksWell(kRanks, [](const auto& group) {
    torch::Tensor tensor = group->allocate({3, kElements / 3});
    tensor.fill_(group->rank());
    group->all_reduce(tensor, ReduceOp::kMean);
    EXPECT_TRUE(torch::equal(tensor, torch::ones_like(tensor)));
    group->all_reduce(tensor, ReduceOp::kSum);
    EXPECT_TRUE(torch::equal(tensor, torch::full_like(tensor, kRanks)));
  });
}

// It is averaged like any other tensor.
TEST(AllocatedTensors, AllReduce_OfATransposedView_ChangesItInPlace) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor tensor = group->allocate({2, 3});
    tensor.copy_(torch::arange(6, torch::kFloat).view({2, 3}) + 2 * group->rank());
    group->all_reduce(tensor.t(), ReduceOp::kMean);
    EXPECT_TRUE(torch::equal(tensor, torch::arange(1, 7, torch::kFloat).view({2, 3}))) << tensor;
  });
}

TEST(AllocatedTensors, Mean_OfAView_HasItsShape) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor tensor = group->allocate({2, 3, 4});
    tensor.fill_(group->rank());
    EXPECT_EQ(group->mean(tensor.view({6, 4})).sizes(), (std::vector<int64_t>{6, 4}));
  });
}

TEST(AllocatedTensors, Mean_OfAnotherTensorOrAPart_InvalidArgumentAndTheRunGoesOn) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor tensor = group->allocate({2, 4});
    for (const torch::Tensor& wrong : {torch::ones({2, 4}), tensor.narrow(0, 0, 1), tensor.t(),
                                       tensor.view(torch::kInt), torch::Tensor()}) {
      try {
        group->mean(wrong);
        ADD_FAILURE() << "expected an Error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr("expected one that allocate() returned"));
      }
    }
    EXPECT_EQ(group->mean(tensor).sum().template item<float>(), 0);
  });
}

TEST(AllocatedTensors, Allocate_NoSize_InvalidArgument) {
  RunRanksWell(1, [](const auto& group) {
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{0}, {3, -1}, {int64_t{1} << 62, 4}}) {
      try {
        group->allocate(sizes);
        ADD_FAILURE() << "expected an Error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr("expected positive ones"));
      }
    }
  });
}

TEST(AllocatedTensors, Mean_RanksTakeDifferentTensors_AllEndWithAnError) {
  const Ends ends = RunRanks(2, [](const auto& group) {
    torch::Tensor a = group->allocate({8});
    torch::Tensor b = group->allocate({8});
    group->mean(group->rank() == 0 ? a : b);
  });
  for (const auto& end : ends) {
    ASSERT_TRUE(end.has_value());
    EXPECT_THAT(end->what(), HasSubstr("called another collective"));
  }
}

// A type on the wire is for gradients; a mean is not rounded to it.
TEST(AllocatedTensors, Mean_HalfTypeOnTheWire_IsNotRounded) {
  GroupOptions options = With("memory");
  options.wire = "bf16";
  RunRanksWell(
      2,
      [](const auto& group) {
        torch::Tensor tensor = group->allocate({kElements});
        tensor.fill_(1 + 1.0 / 4096);
        EXPECT_TRUE(torch::equal(group->mean(tensor), tensor));
      },
      options);
}

TEST(AllocatedTensors, Close_BeforeTheTensorsGo_TheyKeepTheirValues) {
  std::vector<torch::Tensor> kept(4);
  RunRanksWell(
      2,
      [&kept](const auto& group) {
        torch::Tensor tensor = group->allocate({kElements});
        tensor.fill_(group->rank());
        kept[2 * group->rank()] = tensor;
        kept[2 * group->rank() + 1] = group->mean(tensor);
      },
      With("memory"));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(kept[2 * rank].sum().item<double>(), rank * kElements);
    EXPECT_TRUE(torch::equal(kept[2 * rank + 1], torch::full({kElements}, 0.5f)));
  }
}

TEST(AllocatedTensors, Mean_KeptByALossUntilTheNextOne_AutogradNotices) {
  RunRanksWell(
      2,
      [](const auto& group) {
        torch::Tensor tensor = group->allocate({4});
        tensor.fill_(3);
        const torch::Tensor weight = torch::ones({4}, torch::requires_grad());
        torch::Tensor loss = (weight * group->mean(tensor)).sum();
        loss.backward();
        EXPECT_EQ(weight.grad().sum().template item<float>(), 12);
        loss = (weight * group->mean(tensor)).sum();
        group->mean(tensor);
        EXPECT_THROW(loss.backward(), c10::Error);
      },
      With("memory"));
}

// Another's part and this rank's: either would make the ranks' means differ.
TEST(AllocatedTensorsDeathTest, Mean_WrittenTo_EndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(RunRanksWell(
                  1,
                  [](const auto& group) {
                    torch::Tensor tensor = group->allocate({kElements});
                    group->mean(tensor).fill_(1);
                  },
                  With("memory")),
              ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace gradwire::testing
