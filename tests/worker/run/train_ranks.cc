#include <gtest/gtest.h>

#include <thread>

#include "tests/cluster/backend_cluster.h"
#include "tests/worker/run/training.h"
#include "worker/options/traits.h"

namespace gradwire::testing {
namespace {

// One worker of a Training.
struct TrainedWorker {
  std::vector<Rank> ranks;
  std::shared_ptr<Model> model;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Synchronizer> sync;
};

std::vector<TrainedWorker> MakeWorkers(const Training& training, const Deal& deal) {
  TrainerOptions options = training.options;
  options.updates_late = TraitsOfSync(training.sync).updates_late && !training.barrier;
  if (TraitsOfSync(training.sync).periodic) options.reducer.updater = Updater::kRank;
  SyncOptions sync = training.sync_options;
  sync.total_steps = training.steps;
  std::vector<TrainedWorker> workers;
  for (const std::vector<int>& ranks : deal) {
    const auto model = training.make();
    auto trainer = Trainer::Create(model, options).value();
    sync.averaged_buffers.clear();
    for (const torch::Tensor& buffer : model->buffers()) {
      if (buffer.scalar_type() == torch::kFloat) sync.averaged_buffers.push_back(buffer);
    }
    auto synchronizer = MakeSynchronizer(training.sync, &trainer->reducer(), sync).value();
    workers.push_back(
        {{ranks.begin(), ranks.end()}, model, std::move(trainer), std::move(synchronizer)});
  }
  return workers;
}

void Train(const Training& training, TrainedWorker& worker, gradwire::Exchange* exchange) {
  worker.sync->Attach(exchange, LayoutId(0), worker.ranks);
  const absl::Status status = RunTrainer(
      *worker.trainer, Batches(training.steps, training.ranks, worker.ranks), worker.sync.get());
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace

std::vector<std::shared_ptr<Model>> TrainAllRanks(const Training& training) {
  const Deal deal = training.deal.empty() ? OneEach(training.ranks) : training.deal;
  std::vector<TrainedWorker> workers = MakeWorkers(training, deal);
  BackendCluster cluster(training.backend, deal, workers[0].sync->BucketSpecs(), {});
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers.size(); ++i) {
    threads.emplace_back(
        [&, i] { Train(training, workers[i], &cluster.exchange(static_cast<int>(i))); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::shared_ptr<Model>> models;
  for (const TrainedWorker& worker : workers) models.push_back(worker.model);
  return models;
}

std::shared_ptr<Model> TrainRanks(const Training& training) {
  const std::vector<std::shared_ptr<Model>> models = TrainAllRanks(training);
  for (const auto& model : models) EXPECT_EQ(HashOf(*model), HashOf(*models[0]));
  return models[0];
}

}  // namespace gradwire::testing
