// Trains a small net on (Fashion-)MNIST, data-parallel: mnist FOLDER [EPOCHS]
//   gradwire launch --workers 4 --program ./mnist -- FOLDER
//   torchrun --no_python --nproc_per_node 4 ./mnist FOLDER
// FOLDER contains the four unpacked IDX files under their published names.
//   gradwire launch --workers 4 --run-dir kept --checkpoint-every 100 --program ./mnist -- FOLDER
// keeps checkpoints, and continues after Ctrl-C or a crash if it is started again.
#include <gradwire/ddp.h>
#include <torch/torch.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) try {
  constexpr int64_t kBatchSize = 64;
  const int epochs = argc > 2 ? std::stoi(argv[2]) : 1;
  const auto group = gradwire::init_process_group();
  const auto data = torch::data::datasets::MNIST(argc > 1 ? argv[1] : "data")
                        .map(torch::data::transforms::Stack<>());
  gradwire::DistributedSampler sampler(*data.size(), *group);
  const auto loader = torch::data::make_data_loader(data, sampler, kBatchSize);

  torch::manual_seed(1);  // so that a run can be repeated
  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(28 * 28, 128),
                            torch::nn::ReLU(), torch::nn::Linear(128, 10));
  gradwire::DistributedDataParallel ddp(net.ptr(), group);
  torch::optim::Adam adam(net->parameters(), 1e-3);
  ddp.attach(adam);
  const int64_t first = ddp.resume();  // 0, or the step before which the checkpoint was made
  const int64_t epoch_steps = (static_cast<int64_t>(sampler.size()) - 1) / kBatchSize + 1;
  for (int64_t epoch = first / epoch_steps; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    int64_t step = epoch * epoch_steps;
    torch::Tensor mean = torch::zeros({1});
    for (const auto& batch : *loader) {
      if (step++ < first) continue;  // this step is part of the checkpoint
      adam.zero_grad();
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      ddp.report_loss(loss.item<double>(), batch.data.size(0));
      loss.backward();  // gradients are averaged when it returns
      adam.step();
      ddp.end_step();  // the place for a checkpoint
      mean = 0.9 * mean + 0.1 * loss.detach();
    }
    group->all_reduce(mean, gradwire::ReduceOp::kMean);
    if (group->rank() == 0)
      std::cout << "epoch " << epoch << ": loss " << mean.item<float>() << std::endl;
  }
  group->close();
} catch (const std::exception& error) {
  std::cerr << "mnist: " << error.what() << std::endl;
  return 1;
}
