// Two models in one group: a generator learns to draw points on a circle. gan [STEPS]
//   mpirun -np 4 ./gan
#include <gradwire/ddp.h>
#include <torch/torch.h>

#include <iostream>

namespace {

torch::nn::Sequential Mlp(int64_t inputs, int64_t outputs) {
  return torch::nn::Sequential(torch::nn::Linear(inputs, 64), torch::nn::LeakyReLU(),
                               torch::nn::Linear(64, 64), torch::nn::LeakyReLU(),
                               torch::nn::Linear(64, outputs));
}

torch::Tensor Circle(int64_t points) {
  const torch::Tensor angle = 2 * M_PI * torch::rand({points, 1});
  return torch::cat({angle.cos(), angle.sin()}, 1);
}

torch::Tensor Loss(const torch::Tensor& score, double target) {
  return torch::binary_cross_entropy_with_logits(score, torch::full_like(score, target));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::stoi(argv[1]) : 2000;
  const auto group = gradwire::init_process_group();
  torch::nn::Sequential generator = Mlp(8, 2);
  torch::nn::Sequential critic = Mlp(2, 1);
  gradwire::DistributedDataParallel generator_ddp(generator.ptr(), group);
  gradwire::DistributedDataParallel critic_ddp(critic.ptr(), group);
  torch::optim::Adam generator_adam(generator->parameters(), 1e-3);
  torch::optim::Adam critic_adam(critic->parameters(), 1e-3);
  torch::manual_seed(group->rank());  // each rank has its own points and noise

  for (int step = 0; step < steps; ++step) {
    const torch::Tensor drawn = generator->forward(torch::randn({64, 8}));
    critic_adam.zero_grad();
    (Loss(critic->forward(Circle(64)), 1) + Loss(critic->forward(drawn.detach()), 0)).backward();
    critic_adam.step();

    generator_adam.zero_grad();
    const torch::Tensor loss = Loss(critic->forward(drawn), 1);
    generator_ddp.report_loss(loss.item<double>(), 64);
    {
      // Gradients flow through the critic; its own gradients are not used.
      const auto critic_stays = critic_ddp.no_sync();
      loss.backward();
    }
    generator_adam.step();
  }
  const torch::NoGradGuard values_only;
  torch::Tensor radius = generator->forward(torch::randn({1000, 8})).norm(2, 1).mean();
  group->all_reduce(radius, gradwire::ReduceOp::kMean);
  if (group->rank() == 0) std::cout << "mean radius " << radius.item<float>() << std::endl;
  group->close();
}
