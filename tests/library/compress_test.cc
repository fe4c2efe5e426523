// GroupOptions::compress: the means against the codecs themselves, to the bit, with two ranks,
// whose fold is a sum in any order.
#include <gradwire/ddp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/compress/codec.h"
#include "common/compress/low_rank/low_rank_bucket.h"
#include "tests/library/models.h"
#include "tests/library/ranks.h"
#include "tests/support/sockets.h"

namespace gradwire::testing::compress_test {
namespace {

using Floats = std::vector<float>;

constexpr int kRanks = 2;
constexpr int kSteps = 4;

// One bucket of two matrices, that are worth factors of rank 1, and their biases.
struct WideImpl : torch::nn::Module {
  WideImpl()
      : first(register_module("first", Linear(24, 32))),
        last(register_module("last", Linear(32, 16))) {
    const torch::NoGradGuard values_only;
    int64_t next = 0;
    for (torch::Tensor& parameter : parameters()) {
      const torch::Tensor numbers = torch::arange(next, next + parameter.numel());
      parameter.copy_(0.1 * torch::sin(numbers.to(torch::kFloat)).view(parameter.sizes()));
      next += parameter.numel();
    }
  }
  torch::Tensor Loss(int number) {
    const torch::Tensor x = torch::cos(torch::arange(number, number + 5 * 24).to(torch::kFloat));
    return torch::tanh(last->forward(torch::tanh(first->forward(x.view({5, 24}))))).square().sum();
  }
  Linear first{nullptr};
  Linear last{nullptr};
};
TORCH_MODULE(Wide);

int NumberOf(int step, int rank) { return 1000 * step + 77 * rank; }

// Of all parameters, in the order in which they travel.
Floats GradientsOf(const torch::nn::Module& module) {
  Floats all;
  std::vector<torch::Tensor> parameters = module.parameters();
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const torch::Tensor flat = parameter->grad().contiguous().view({-1});
    all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return all;
}

Floats OwnGradients(int step, int rank) {
  Wide net;
  net->Loss(NumberOf(step, rank)).backward();
  return GradientsOf(*net);
}

Floats MeanOf(absl::Span<const float> a, absl::Span<const float> b) {
  Floats mean(a.size());
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = (a[i] + b[i]) * 0.5f;
  return mean;
}

// What both ranks' backward passes give, by step. `compress` with these first steps.
std::vector<Floats> MeansOf(const std::string& compress, int warmup = 0,
                            const std::string& backend = "") {
  GroupOptions options;
  options.compress = compress;
  options.compress_warmup = warmup;
  options.backend = backend;
  std::vector<std::vector<Floats>> means(kRanks);
  RunRanksWell(
      kRanks,
      [&means](const auto& group) {
        Wide net;
        DistributedDataParallel ddp(net, group);
        for (int step = 0; step < kSteps; ++step) {
          net->zero_grad();
          net->Loss(NumberOf(step, group->rank())).backward();
          means[static_cast<size_t>(group->rank())].push_back(GradientsOf(*net));
        }
      },
      options);
  EXPECT_EQ(means[0], means[1]);
  return means[0];
}

Floats Decode(const Coding& coding, const std::vector<uint8_t>& payload, size_t elements) {
  Floats values(elements);
  coding.Decode({payload}, absl::MakeSpan(values));
  return values;
}

// The same by the codec, as its contract says.
std::vector<Floats> CodedMeans(const Compression& compression) {
  const Coding& coding = *CodingOf(compression.dtype);
  const size_t elements = OwnGradients(0, 0).size();
  std::vector<std::unique_ptr<Compressor>> compressors;
  for (int rank = 0; rank < kRanks; ++rank) {
    compressors.push_back(MakeCompressor(compression, elements));
  }
  Floats residual(coding.has_residual() ? elements : 0);
  std::vector<Floats> means;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Floats> terms;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Floats gradients = OwnGradients(step, rank);
      const auto payload = compressors[static_cast<size_t>(rank)]->Encode(
          Step(static_cast<uint64_t>(step)), 0, gradients);
      terms.push_back(Decode(coding, payload, elements));
    }
    const Floats mean = MeanOf(terms[0], terms[1]);
    means.push_back(Decode(coding, coding.EncodeMean(mean, absl::MakeSpan(residual)), elements));
  }
  return means;
}

class LibraryCodecTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LibraryCodecTest, Backward_GivesTheCodecsMean) {
  const std::vector<Floats> expected = CodedMeans(ParseCompression(GetParam()).value());
  EXPECT_EQ(MeansOf(GetParam()), expected);
  EXPECT_EQ(MeansOf(GetParam(), 0, "coordinator"), expected);
  EXPECT_NE(MeansOf("none"), expected);
}

INSTANTIATE_TEST_SUITE_P(Codecs, LibraryCodecTest, ::testing::Values("int8", "top-k:0.1"),
                         [](const auto& info) { return std::string(info.param, 0, 3); });

std::vector<std::vector<int64_t>> Shapes() {
  std::vector<std::vector<int64_t>> shapes;
  for (const torch::Tensor& parameter : Wide()->parameters()) {
    shapes.insert(shapes.begin(), parameter.sizes().vec());
  }
  return shapes;
}

// By the factors, of both ranks.
std::vector<Floats> FactoredMeans(int from_step) {
  const LowRankLayout layout(Shapes(), 1);
  EXPECT_EQ(layout.matrices.size(), 2u);
  LowRankBucket bucket(&layout, Bucket(0), kRanks);
  std::vector<Floats> means;
  for (int step = from_step; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      bucket.Project(static_cast<size_t>(rank), OwnGradients(step, rank));
    }
    const Floats left = MeanOf(bucket.left(0), bucket.left(1));
    std::copy(left.begin(), left.end(), bucket.left_mean().begin());
    bucket.ProjectBack();
    const Floats right = MeanOf(bucket.right(0), bucket.right(1));
    std::copy(right.begin(), right.end(), bucket.right_mean().begin());
    means.emplace_back(layout.size);
    bucket.Reconstruct(absl::MakeSpan(means.back()));
    bucket.Renew(Step(static_cast<uint64_t>(step)));
  }
  return means;
}

TEST(LibraryFactors, Backward_GivesTheProductsMean) {
  const std::vector<Floats> expected = FactoredMeans(0);
  for (const char* backend : {"ring", "sharded", "coordinator"}) {
    EXPECT_EQ(MeansOf("powersgd:1", 0, backend), expected) << backend;
  }
}

TEST(LibraryFactors, WarmUp_FirstStepsAreWhole) {
  const std::vector<Floats> means = MeansOf("powersgd:1", 1);
  EXPECT_EQ(means[0], MeansOf("none")[0]);
  EXPECT_EQ(std::vector<Floats>(means.begin() + 1, means.end()), FactoredMeans(1));
}

TEST(LibraryFactors, Metrics_AfterAPass_HaveItsRatio) {
  GroupOptions options;
  options.compress = "powersgd:1";
  options.metrics = UnusedAddress();
  std::string page;
  RunRanksWell(
      1,
      [&](const auto& group) {
        Wide net;
        DistributedDataParallel ddp(net, group);
        net->Loss(0).backward();
        page = HttpGet(options.metrics, "/metrics").value().body;
      },
      options);
  const std::string name = "\ngradwire_compression_ratio ";
  const size_t at = page.find(name);
  ASSERT_NE(at, std::string::npos) << page;
  EXPECT_GT(std::stod(page.substr(at + name.size())), 2);
}

TEST(LibraryFactors, TwoModelsAndCollectivesInOnePass_SameOnAllRanks) {
  GroupOptions options;
  options.compress = "powersgd:1";
  std::vector<Floats> gradients(kRanks);
  RunRanksWell(
      kRanks,
      [&gradients](const auto& group) {
        DDPOptions finds;
        finds.find_unused_parameters = true;
        Wide one;
        Wide other;
        DistributedDataParallel first(one, group, finds);
        DistributedDataParallel second(other, group, finds);
        for (int step = 0; step < kSteps; ++step) {
          one->zero_grad();
          other->zero_grad();
          const int number = NumberOf(step, group->rank());
          (one->Loss(number) + other->Loss(number + 1)).backward();
        }
        torch::Tensor sum = torch::ones({3});
        group->all_reduce(sum);
        EXPECT_TRUE(torch::equal(sum, torch::full({3}, 2.0f)));
        Floats& mine = gradients[static_cast<size_t>(group->rank())];
        mine = GradientsOf(*one);
        const Floats more = GradientsOf(*other);
        mine.insert(mine.end(), more.begin(), more.end());
      },
      options);
  EXPECT_EQ(gradients[0], gradients[1]);
}

}  // namespace
}  // namespace gradwire::testing::compress_test
