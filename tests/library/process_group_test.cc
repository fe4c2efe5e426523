#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <future>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/library/ranks.h"
#include "tests/support/sockets.h"

namespace gradwire::testing::process_group_test {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;

torch::Tensor Filled(int64_t value, torch::ScalarType type) {
  return torch::full({2, 3}, value, type);
}

TEST(ProcessGroup, Init_ThreeRanks_KnowTheirPlaces) {
  RunRanksWell(kRanks, [](const auto& group) {
    EXPECT_EQ(group->world_size(), kRanks);
    EXPECT_EQ(group->local_rank(), group->rank());
    EXPECT_EQ(group->page(), "");
  });
}

TEST(ProcessGroup, Init_NoOptions_RunOfOneRank) {
  GroupOptions options;
  options.coordinator_metrics = "off";
  const auto group = init_process_group(options);
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->world_size(), 1);
  group->close();
}

TEST(ProcessGroup, Init_UnknownBackend_InvalidArgument) {
  GroupOptions options;
  options.backend = "shared";
  try {
    init_process_group(options);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("sharded"));
    EXPECT_EQ(error.rank(), -1);
    EXPECT_EQ(error.step(), -1);
  }
}

TEST(ProcessGroup, Init_NobodyListensAndNobodyHosts_Unavailable) {
  GroupOptions options;
  options.coordinator = UnusedAddress();
  options.host_coordinator = false;
  options.connect_timeout_seconds = 0.2;
  try {
    init_process_group(options);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr(options.coordinator));
  }
}

class AllReduceOfType : public ::testing::TestWithParam<torch::ScalarType> {};

TEST_P(AllReduceOfType, Sum_ThreeRanks_IsTheSum) {
  RunRanksWell(kRanks, [](const auto& group) {
    torch::Tensor tensor = Filled(group->rank() + 1, GetParam());
    group->all_reduce(tensor);
    EXPECT_TRUE(torch::equal(tensor, Filled(6, GetParam()))) << tensor;
  });
}

TEST_P(AllReduceOfType, Mean_ThreeRanks_IsTheMean) {
  RunRanksWell(kRanks, [](const auto& group) {
    torch::Tensor tensor = Filled(group->rank() + 1, GetParam());
    group->all_reduce(tensor, ReduceOp::kMean);
    EXPECT_TRUE(torch::equal(tensor, Filled(2, GetParam()))) << tensor;
  });
}

INSTANTIATE_TEST_SUITE_P(Types, AllReduceOfType,
                         ::testing::Values(torch::kFloat, torch::kDouble, torch::kHalf,
                                           torch::kBFloat16, torch::kByte, torch::kChar,
                                           torch::kShort, torch::kInt, torch::kLong),
                         [](const auto& info) { return c10::toString(info.param); });

TEST(ProcessGroup, AllReduce_SumBeyondTheType_WrapsAround) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor bytes = torch::full({1}, 200, torch::kByte);
    group->all_reduce(bytes);
    EXPECT_EQ(bytes.item<int64_t>(), 400 - 256);
    torch::Tensor longs = torch::full({1}, std::numeric_limits<int64_t>::max(), torch::kLong);
    group->all_reduce(longs);
    EXPECT_EQ(longs.item<int64_t>(), -2);
  });
}

TEST(ProcessGroup, AllReduce_MeanOfIntegers_IsCutOffTowardsZero) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor tensor = torch::full({1}, group->rank() == 0 ? -3 : 0, torch::kInt);
    group->all_reduce(tensor, ReduceOp::kMean);
    EXPECT_EQ(tensor.item<int64_t>(), -1);
  });
}

TEST(ProcessGroup, AllReduce_LongMean_EqualOnAllRanksAndRight) {
  constexpr int64_t kElements = 700001;  // several pieces, the last one short
  RunRanksWell(kRanks, [](const auto& group) {
    torch::Tensor tensor = torch::arange(kElements, torch::kFloat) * (group->rank() + 1);
    group->all_reduce(tensor, ReduceOp::kMean);
    EXPECT_TRUE(torch::allclose(tensor, torch::arange(kElements, torch::kFloat) * 2, 1e-6));
    for (const torch::Tensor& other : group->all_gather(tensor)) {
      EXPECT_TRUE(torch::equal(other, tensor));
    }
  });
}

TEST(ProcessGroup, AllReduce_LongMeanWithAHalfTypeOnTheWire_IsNotRoundedToIt) {
  GroupOptions options;
  options.wire = "bf16";  // of gradients
  const auto body = [](const auto& group) {
    const torch::Tensor expected = torch::full({300001}, 1 + 1.0 / 4096, torch::kFloat);
    torch::Tensor tensor = expected.clone();
    group->all_reduce(tensor, ReduceOp::kMean);
    EXPECT_TRUE(torch::equal(tensor, expected)) << tensor[0];
  };
  RunRanksWell(2, body, options);
}

TEST(ProcessGroup, AllReduce_LongSum_IsExact) {
  constexpr int64_t kElements = 300001;
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor tensor = torch::arange(kElements, torch::kFloat);
    if (group->rank() == 1) tensor.neg_();
    group->all_reduce(tensor);
    EXPECT_EQ(tensor.abs().max().item<float>(), 0);
  });
}

TEST(ProcessGroup, AllReduce_SumOnOneRankAndMeanOnTheOther_AllEndWithAnError) {
  const Ends ends = RunRanks(2, [](const auto& group) {
    torch::Tensor tensor = torch::ones({3});
    group->all_reduce(tensor, group->rank() == 0 ? ReduceOp::kSum : ReduceOp::kMean);
  });
  for (const auto& end : ends) {
    ASSERT_TRUE(end.has_value());
    EXPECT_THAT(end->what(), HasSubstr("called another collective"));
  }
}

TEST(ProcessGroup, AllReduce_NotContiguous_ChangesItInPlace) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor whole = torch::zeros({4, 4});
    torch::Tensor column = whole.select(1, 2);
    column.fill_(1);
    group->all_reduce(column);
    EXPECT_EQ(whole.sum().item<float>(), 8);
    EXPECT_EQ(whole.select(1, 2).sum().item<float>(), 8);
  });
}

// As of the imaginary part of a conjugate: its memory has the values with the other sign.
TEST(ProcessGroup, AllReduce_LazyNegative_ChangesItInPlace) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor memory = torch::full({3}, 1 + group->rank(), torch::kFloat);
    torch::Tensor negative = torch::_neg_view(memory);
    group->all_reduce(negative);
    EXPECT_TRUE(torch::equal(memory, torch::full({3}, 3, torch::kFloat))) << memory;
  });
}

TEST(ProcessGroup, AllReduce_RequiresGrad_ValuesChangeWithoutHistory) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor tensor = torch::ones({2}, torch::requires_grad());
    group->all_reduce(tensor);
    EXPECT_TRUE(tensor.is_leaf());
    EXPECT_EQ(tensor.sum().item<float>(), 4);
  });
}

// Else backward would take the new values for those of the forward pass.
TEST(ProcessGroup, Collectives_TensorKeptByALoss_AutogradNotices) {
  RunRanksWell(2, [](const auto& group) {
    const std::vector<std::function<void(torch::Tensor)>> changes = {
        [&](torch::Tensor tensor) { group->broadcast(tensor, 1); },
        [&](torch::Tensor tensor) { group->all_reduce(tensor); },
        [&](torch::Tensor tensor) { group->all_reduce(tensor, ReduceOp::kMean); }};
    for (const auto& change : changes) {
      const torch::Tensor tensor = torch::full({1 << 16}, 2 + group->rank(), torch::kFloat);
      const torch::Tensor weight = torch::ones({1 << 16}, torch::requires_grad());
      const torch::Tensor loss = (weight * tensor).sum();
      change(tensor);
      EXPECT_THROW(loss.backward(), c10::Error);
    }
  });
}

TEST(ProcessGroup, AllReduce_EmptyTensor_StaysEmpty) {
  RunRanksWell(2, [](const auto& group) {
    torch::Tensor tensor = torch::empty({0, 3});
    group->all_reduce(tensor);
    EXPECT_EQ(tensor.numel(), 0);
  });
}

TEST(ProcessGroup, AllReduce_Bool_InvalidArgumentAndTheGroupGoesOn) {
  RunRanksWell(2, [](const auto& group) {
    try {
      group->all_reduce(torch::ones({1}, torch::kBool));
      ADD_FAILURE() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("Bool"));
      EXPECT_EQ(error.rank(), group->rank());
    }
    group->barrier();
  });
}

TEST(ProcessGroup, Collectives_ExpandedTensor_InvalidArgumentAndTheGroupGoesOn) {
  RunRanksWell(2, [](const auto& group) {
    const torch::Tensor expanded = torch::ones({1}).expand({3});
    const std::vector<std::function<void()>> calls = {[&] { group->all_reduce(expanded); },
                                                      [&] { group->broadcast(expanded); }};
    for (const auto& call : calls) {
      try {
        call();
        ADD_FAILURE() << "expected an Error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr("whose elements share memory"));
      }
    }
    EXPECT_EQ(group->all_gather(expanded).size(), 2u);
  });
}

TEST(ProcessGroup, AllReduce_OtherShapeOnOneRank_ErrorOnAll) {
  const Ends ends = RunRanks(2, [](const auto& group) {
    torch::Tensor tensor = torch::ones({group->rank() + 1});
    group->all_reduce(tensor);
  });
  for (const auto& end : ends) {
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->code(), ErrorCode::kAborted) << "the run is over";
    EXPECT_THAT(end->what(), HasSubstr("expected the same on all ranks"));
  }
}

// The bytes are as many, but have another meaning.
TEST(ProcessGroup, Collectives_OtherTypeOnOneRank_ErrorOnAll) {
  const auto of_rank = [](int rank) {
    return torch::ones({3}, rank == 0 ? torch::kFloat : torch::kInt);
  };
  for (const bool gathers : {false, true}) {
    const Ends ends = RunRanks(2, [&](const auto& group) {
      torch::Tensor tensor = of_rank(group->rank());
      if (gathers) {
        group->all_gather(tensor);
      } else {
        group->broadcast(tensor);
        group->barrier();  // the root learns of it here
      }
    });
    for (const auto& end : ends) {
      ASSERT_TRUE(end.has_value()) << gathers;
      EXPECT_THAT(end->what(), HasSubstr("called another collective")) << gathers;
    }
  }
}

TEST(ProcessGroup, Collectives_UndefinedOrSparseTensor_InvalidArgumentAndTheGroupGoesOn) {
  RunRanksWell(2, [](const auto& group) {
    const std::pair<torch::Tensor, std::string> wrongs[] = {
        {torch::Tensor(), "got an undefined tensor"},
        {torch::eye(3).to_sparse(), "got a sparse tensor"}};
    for (const auto& [tensor, expected] : wrongs) {
      const std::vector<std::function<void()>> calls = {
          [&, wrong = tensor] { group->all_reduce(wrong); },
          [&, wrong = tensor] { group->broadcast(wrong); },
          [&, wrong = tensor] { group->all_gather(wrong); }};
      for (const auto& call : calls) {
        try {
          call();
          ADD_FAILURE() << "expected an Error";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
          EXPECT_THAT(error.what(), HasSubstr(expected));
        }
      }
    }
    group->barrier();
  });
}

TEST(ProcessGroup, Broadcast_EachRoot_AllGetItsValues) {
  RunRanksWell(kRanks, [](const auto& group) {
    for (int root = 0; root < kRanks; ++root) {
      torch::Tensor tensor = Filled(group->rank(), torch::kShort);
      group->broadcast(tensor, root);
      EXPECT_TRUE(torch::equal(tensor, Filled(root, torch::kShort)));
    }
  });
}

TEST(ProcessGroup, Broadcast_SeveralPieces_AllArrive) {
  RunRanksWell(2, [](const auto& group) {
    const torch::Tensor expected = torch::arange(400000, torch::kLong);
    torch::Tensor tensor = group->rank() == 1 ? expected.clone() : torch::zeros_like(expected);
    group->broadcast(tensor, 1);
    EXPECT_TRUE(torch::equal(tensor, expected));
  });
}

TEST(ProcessGroup, Broadcast_NotContiguous_ChangesItInPlace) {
  RunRanksWell(2, [](const auto& group) {
    const torch::Tensor expected = torch::arange(6).view({2, 3});
    const torch::Tensor whole = group->rank() == 1 ? expected.clone() : torch::zeros_like(expected);
    group->broadcast(whole.t(), 1);
    EXPECT_TRUE(torch::equal(whole, expected)) << whole;
  });
}

torch::Tensor ComplexOf(int rank) {
  return torch::complex(torch::tensor({1.0, 2.0}), torch::tensor({3.0, 4.0}) + rank);
}

TEST(ProcessGroup, Broadcast_LazyConjugate_ItsValuesArrive) {
  RunRanksWell(2, [](const auto& group) {
    const torch::Tensor memory = ComplexOf(group->rank());
    group->broadcast(group->rank() == 1 ? memory.conj() : memory, 1);
    const torch::Tensor expected = group->rank() == 1 ? ComplexOf(1) : ComplexOf(1).conj();
    EXPECT_TRUE(torch::equal(memory, expected.resolve_conj()));
  });
}

TEST(ProcessGroup, Broadcast_NoSuchRoot_InvalidArgument) {
  RunRanksWell(2, [](const auto& group) {
    try {
      group->broadcast(torch::ones({1}), 2);
      ADD_FAILURE() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "got root 2, expected 0 to 1");
    }
  });
}

TEST(ProcessGroup, AllGather_Bools_ByRank) {
  RunRanksWell(kRanks, [](const auto& group) {
    const torch::Tensor mine = torch::full({2}, group->rank() == 1, torch::kBool);
    const std::vector<torch::Tensor> all = group->all_gather(mine);
    ASSERT_EQ(all.size(), kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(all[static_cast<size_t>(rank)].all().item<bool>(), rank == 1);
    }
  });
}

TEST(ProcessGroup, AllGather_NotContiguous_ValuesOfEachRankInItsShape) {
  RunRanksWell(2, [](const auto& group) {
    const auto of_rank = [](int rank) { return (torch::arange(6) + 10 * rank).view({2, 3}).t(); };
    const std::vector<torch::Tensor> all = group->all_gather(of_rank(group->rank()));
    ASSERT_EQ(all.size(), 2u);
    EXPECT_TRUE(torch::equal(all[0], of_rank(0))) << all[0];
    EXPECT_TRUE(torch::equal(all[1], of_rank(1))) << all[1];
  });
}

TEST(ProcessGroup, AllGather_LazyConjugate_ItsValuesOfEachRank) {
  RunRanksWell(2, [](const auto& group) {
    const std::vector<torch::Tensor> all = group->all_gather(ComplexOf(group->rank()).conj());
    for (int rank = 0; rank < 2; ++rank) {
      const torch::Tensor expected = ComplexOf(rank).conj().resolve_conj();
      EXPECT_TRUE(torch::equal(all[static_cast<size_t>(rank)], expected)) << rank;
    }
  });
}

TEST(ProcessGroup, RankThrows_InTheMiddle_OthersHearWhy) {
  const Ends ends = RunRanks(2, [](const auto& group) {
    if (group->rank() == 1) throw Error(ErrorCode::kInternal, 1, -1, "mine");
    group->barrier();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kAborted);
  EXPECT_THAT(ends[0]->what(), HasSubstr("rank 1"));
  EXPECT_STREQ(ends[1]->what(), "mine");
}

TEST(ProcessGroup, Collective_OtherRankHasClosed_NamesIt) {
  GroupOptions options;
  options.step_timeout_seconds = 0.3;
  const Ends ends = RunRanks(
      2,
      [](const auto& group) {
        group->barrier();
        if (group->rank() == 0) group->barrier();
      },
      options);
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kFailedPrecondition) << ends[0]->what();
  EXPECT_THAT(ends[0]->what(), HasSubstr("rank 1"));
}

TEST(ProcessGroup, Closed_Collective_FailedPrecondition) {
  const Ends ends = RunRanks(1, [](const auto& group) {
    group->close();
    group->close();  // does nothing
    group->barrier();
  });
  ASSERT_TRUE(ends[0].has_value());
  EXPECT_EQ(ends[0]->code(), ErrorCode::kFailedPrecondition);
}

// As of a program that returns from main.
TEST(ProcessGroup, Destroyed_WithoutClose_RunEndsWell) {
  GroupOptions options;
  options.coordinator = UnusedAddress();
  options.coordinator_metrics = "off";
  options.world_size = 2;
  const auto join = [options](int rank) {
    GroupOptions own = options;
    own.rank = rank;
    return init_process_group(own);
  };
  ::testing::internal::CaptureStderr();
  auto other = std::async(std::launch::async, [&join] { join(1)->barrier(); });
  const auto group = join(0);
  group->barrier();
  group->close();
  other.get();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("all ranks finished"));
}

// Some libtorch has one of its own.
std::vector<sighandler_t> SignalHandlers() {
  std::vector<sighandler_t> handlers;
  for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGABRT}) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    handlers.push_back(action.sa_handler);
  }
  return handlers;
}

TEST(ProcessGroup, Init_SignalHandlers_StayAsTheyWere) {
  const std::vector<sighandler_t> before = SignalHandlers();
  EXPECT_EQ(before.front(), SIG_DFL);
  RunRanksWell(1, [&before](const auto&) { EXPECT_EQ(SignalHandlers(), before); });
}

class BackendTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BackendTest, Collectives_EachBackend_SameResults) {
  GroupOptions options;
  options.backend = GetParam();
  RunRanksWell(
      2,
      [](const auto& group) {
        torch::Tensor longer = torch::full({100000}, group->rank(), torch::kFloat);
        group->all_reduce(longer, ReduceOp::kMean);
        EXPECT_EQ(longer.min().template item<float>(), 0.5);
        torch::Tensor one = torch::full({1}, group->rank(), torch::kLong);
        group->broadcast(one, 1);
        EXPECT_EQ(one.template item<int64_t>(), 1);
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendTest, ::testing::Values("sharded", "coordinator", "ring"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gradwire::testing::process_group_test
