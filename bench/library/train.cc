// One rank of the training that compare.py measures, on the library: train MODE STEPS WIDTH
// train.py does the same with PyTorch's DistributedDataParallel over Gloo.
// Prints one line per forward pass: its loss, and the seconds of its step. Rank 0 also prints the
// loss of its final weights and buffers.
#include <gradwire/ddp.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kBatch = 16;
constexpr int kPasses = 3;  // per step, in mode no-sync

// A 3 x 3 convolution without bias, and batch normalization.
torch::nn::Sequential Block(int in, int out) {
  return torch::nn::Sequential(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false)),
      torch::nn::BatchNorm2d(out));
}

// For images of 28 x 28. A pass may skip the branch. All functions are smooth: see train.py.
struct Net : torch::nn::Module {
  explicit Net(int width)
      : first(register_module("first", Block(1, width))),
        second(register_module("second", Block(width, 2 * width))),
        third(register_module("third", Block(2 * width, 4 * width))),
        branch(register_module("branch", Block(4 * width, 4 * width))),
        hidden(register_module("hidden", torch::nn::Linear(4 * width * 7 * 7, 256))),
        head(register_module("head", torch::nn::Linear(256, 10))) {}

  torch::Tensor forward(const torch::Tensor& images, bool with_branch) {
    torch::Tensor x = torch::avg_pool2d(torch::gelu(first->forward(images)), 2);
    x = torch::avg_pool2d(torch::gelu(second->forward(x)), 2);
    x = torch::gelu(third->forward(x));
    if (with_branch) x = torch::gelu(x + branch->forward(x));
    return head(torch::gelu(hidden(x.flatten(1))));
  }

  torch::nn::Sequential first, second, third, branch;
  torch::nn::Linear hidden, head;
};

// Cross entropy with a penalty on large outputs.
torch::Tensor Loss(const torch::Tensor& outputs, const torch::Tensor& labels) {
  return torch::nn::functional::cross_entropy(outputs, labels) + 1e-3 * outputs.square().mean();
}

struct Batch {
  torch::Tensor images, labels;
};

// Noise over a wave whose frequency is the class.
Batch MakeBatch() {
  const torch::Tensor images = torch::randn({kBatch, 1, 28, 28});
  const torch::Tensor labels = torch::randint(10, {kBatch}, torch::kLong);
  const torch::Tensor places = torch::linspace(0, 6, 28 * 28).view({1, 1, 28, 28});
  return {images + 0.3 * torch::sin((labels.view({-1, 1, 1, 1}) + 1) * places), labels};
}

struct Run {
  Run(std::shared_ptr<gradwire::ProcessGroup> run_group, const std::string& mode, int width)
      : group(std::move(run_group)), rank(group->rank()), net(std::make_shared<Net>(width)) {
    gradwire::DDPOptions options;
    options.find_unused_parameters = mode == "unused";
    ddp = std::make_unique<gradwire::DistributedDataParallel>(net, group, options);
    adam = std::make_unique<torch::optim::Adam>(net->parameters(), 1e-3);
  }

  void Pass(bool with_branch = true) {
    const Batch batch = MakeBatch();
    const torch::Tensor loss = Loss(net->forward(batch.images, with_branch), batch.labels);
    loss.backward();
    losses.push_back(loss.item<double>());
  }

  void Step(const std::function<void()>& passes) {
    const auto start = std::chrono::steady_clock::now();
    adam->zero_grad();
    passes();
    adam->step();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  std::shared_ptr<gradwire::ProcessGroup> group;
  int rank;
  std::shared_ptr<Net> net;
  std::unique_ptr<gradwire::DistributedDataParallel> ddp;
  std::unique_ptr<torch::optim::Adam> adam;
  std::vector<double> losses, seconds;
};

void Plain(Run* run, int steps) {
  for (int step = 0; step < steps; ++step) run->Step([&] { run->Pass(); });
}

void NoSync(Run* run, int steps) {
  for (int step = 0; step < steps; ++step) {
    run->Step([&] {
      {
        const auto guard = run->ddp->no_sync();
        for (int pass = 1; pass < kPasses; ++pass) run->Pass();
      }
      run->Pass();
    });
  }
}

// Odd ranks skip the branch in each pass; all ranks skip it in every third step.
void Unused(Run* run, int steps) {
  for (int step = 0; step < steps; ++step)
    run->Step([&] { run->Pass(/*with_branch=*/run->rank % 2 == 0 && step % 3 != 2); });
}

// Rank r has 2r batches more than rank 0.
void Uneven(Run* run, int steps) {
  run->ddp->join([&] { Plain(run, steps - 2 * (run->group->world_size() - 1 - run->rank)); });
}

double FinalLoss(Run* run) {
  torch::manual_seed(7);
  const Batch batch = MakeBatch();
  run->net->eval();
  const torch::NoGradGuard no_grad;
  return Loss(run->net->forward(batch.images, true), batch.labels).item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(Run*, int)>> modes = {
      {"plain", Plain}, {"no-sync", NoSync}, {"unused", Unused}, {"uneven", Uneven}};
  if (argc != 4 || modes.count(argv[1]) == 0) {
    std::cerr << "usage: train plain|no-sync|unused|uneven STEPS WIDTH\n";
    return 2;
  }
  torch::set_num_threads(1);
  auto group = gradwire::init_process_group();
  torch::manual_seed(744 + group->rank());  // all ranks must get rank 0's weights
  Run run(group, argv[1], std::stoi(argv[3]));
  torch::manual_seed(1000 + group->rank());
  modes.at(argv[1])(&run, std::stoi(argv[2]));
  std::cout << std::setprecision(9);
  // None, if this rank has no batch.
  const size_t passes = run.losses.size() / std::max<size_t>(run.seconds.size(), 1);
  for (size_t i = 0; i < run.losses.size(); ++i)
    std::cout << run.losses[i] << ' ' << run.seconds[i / passes] << '\n';
  if (run.rank == 0) std::cout << FinalLoss(&run) << " 0\n";
  std::cout << std::flush;
  group->close();
}
