// gradwire-layout: prints as JSON what a worker with these options would exchange: parameters,
// buffers and buckets, with the names of the tensors in each; if a data set is named, also the
// number of training samples and their order. With --evaluate, also checks that the test data
// exist.
#include <torch/version.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/logging.h"
#include "common/base/status_util.h"
#include "worker/data/batches.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"
#include "worker/ddp/model_layout.h"
#include "worker/ddp/reducer.h"
#include "worker/options/choices.h"
#include "worker/options/worker_option_parser.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgram[] = "gradwire-layout";
constexpr int64_t kUsualClasses = 10;
constexpr int64_t kShownEpochs = 2;
constexpr int64_t kShownSamples = 16;

Json TensorsJson(const Layout& layout, bool buffers) {
  Json tensors = Json::array();
  for (const TensorSpec& tensor : layout) {
    if (tensor.buffer != buffers) continue;
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", tensor.dtype}});
  }
  return tensors;
}

// Only float32 buffers are averaged; all of rank 0's are broadcast.
std::vector<std::string> NamesOfBuffers(const Model& model, bool averaged) {
  const std::vector<torch::Tensor> trained = model.trained_buffers();
  std::vector<std::string> names;
  for (const auto& buffer : model.named_buffers()) {
    const auto is_it = [&](const torch::Tensor& other) { return other.is_same(buffer.value()); };
    if (averaged && buffer.value().scalar_type() != torch::kFloat) continue;
    if (std::any_of(trained.begin(), trained.end(), is_it)) names.push_back(buffer.key());
  }
  return names;
}

bool IsAveraged(const BucketSpec& bucket) { return bucket.dtype == v1::DTYPE_FLOAT32; }

Json BucketJson(const BucketSpec& bucket) {
  return {{"bytes", bucket.bytes}, {"averaged", IsAveraged(bucket)}};
}

Json FactorsJson(const LowRankPlan& plan) {
  Json json = Json::array();
  for (const BucketSpec& bucket : plan.specs()) json.push_back(BucketJson(bucket));
  return json;
}

// Adds the names of the tensors in each bucket: parameters, then perhaps one bucket of buffers.
Json BucketsJson(const std::vector<BucketSpec>& buckets, const Reducer& reducer,
                 const Model& model) {
  const auto parameters = model.named_parameters().keys();
  Json json = Json::array();
  for (size_t i = 0; i < buckets.size(); ++i) {
    Json names = Json::array();
    if (i < reducer.gradient_buckets()) {
      for (const size_t index : reducer.IndicesOf(i)) names.push_back(parameters[index]);
    } else {
      names = NamesOfBuffers(model, IsAveraged(buckets[i]));
    }
    json.push_back(BucketJson(buckets[i]));
    json.back()["tensors"] = std::move(names);
  }
  return json;
}

// The first samples of each rank in the first epochs: [epoch][rank][i].
Json OrderJson(const Sampler& sampler, int ranks) {
  Json epochs = Json::array();
  for (int64_t epoch = 0; epoch < kShownEpochs; ++epoch) {
    Json of_ranks = Json::array();
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int64_t> indices = *sampler.Indices(epoch, Rank(rank));
      indices.resize(std::min<size_t>(indices.size(), kShownSamples));
      of_ranks.push_back(std::move(indices));
    }
    epochs.push_back(std::move(of_ranks));
  }
  return epochs;
}

// Null if no data set is named.
absl::StatusOr<std::shared_ptr<const Dataset>> NamedDataset(const Parsed<WorkerOptions>& parsed) {
  if (parsed.sources.at("dataset").layer == Layer::kDefault) return nullptr;
  const WorkerOptions& options = parsed.options;
  if (options.evaluate) {
    const auto test = LoadDataset(options.dataset, options.data_dir, Split::kTest);
    if (!test.ok()) return test.status();
  }
  return LoadDataset(options.dataset, options.data_dir, Split::kTrain);
}

// Adds the fields about the data. Fails if they do not fit the model.
absl::Status DescribeData(const WorkerOptions& options, std::shared_ptr<const Dataset> dataset,
                          const Model& model, Json* json) {
  if (dataset == nullptr) return absl::OkStatus();
  const int ranks = std::max(1, options.world_size);
  (*json)["samples"] = dataset->size();
  const auto batches = TrainingBatches::Create(
      std::move(dataset), ShapeFor(model, options.image_size), BatchOptionsOf(options, ranks));
  if (!batches.ok()) return batches.status();
  (*json)["order"] = OrderJson((*batches)->sampler(), ranks);
  return absl::OkStatus();
}

absl::StatusOr<Json> BucketsOf(const WorkerOptions& options, const Model& model) {
  ReducerOptions reducer_options;
  reducer_options.broadcast_buffers = options.broadcast_buffers;
  reducer_options.bucket_cap_bytes = options.bucket_cap_mb * (1 << 20);
  const auto reducer =
      Reducer::Create(model.parameters(), model.trained_buffers(), reducer_options);
  if (!reducer.ok()) return reducer.status();
  const absl::StatusOr<Compression> compression = CompressionOf(options);
  if (!compression.ok()) return compression.status();
  if (compression->has_factors()) return FactorsJson(LowRankPlanOf(**reducer, compression->rank));
  auto sync_options = SyncOptionsOf(options, TrainingSize(), model);
  if (!sync_options.ok()) return sync_options.status();
  const auto sync = MakeSynchronizer(options.sync, reducer->get(), *std::move(sync_options));
  if (!sync.ok()) return sync.status();
  return BucketsJson(*sync == nullptr ? (*reducer)->BucketSpecs() : (*sync)->BucketSpecs(),
                     **reducer, model);
}

absl::StatusOr<Json> Describe(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  Json json = {{"torch", TORCH_VERSION}};
  const absl::StatusOr<std::shared_ptr<const Dataset>> dataset = NamedDataset(parsed);
  if (!dataset.ok()) return dataset.status();
  const int64_t classes = *dataset == nullptr ? kUsualClasses : (*dataset)->classes;
  const absl::StatusOr<std::shared_ptr<Model>> model =
      PrepareModel(ModelOptionsOf(options, classes));
  if (!model.ok()) return model.status();
  const absl::Status described = DescribeData(options, *dataset, **model, &json);
  if (!described.ok()) return described;
  const absl::StatusOr<Json> buckets = BucketsOf(options, **model);
  if (!buckets.ok()) return buckets.status();
  const Layout layout = LayoutOf(**model);
  json["parameters"] = TensorsJson(layout, false);
  json["buffers"] = TensorsJson(layout, true);
  json["buckets"] = *buckets;
  return json;
}

int Main(int argc, char** argv) {
  LogToStderr();
  const absl::StatusOr<Parsed<WorkerOptions>> parsed =
      ParseWorkerOptions(Arguments(argc, argv), CurrentEnvironment(), kProgram);
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const absl::StatusOr<Json> json = Describe(*parsed);
  if (!json.ok()) {
    std::cerr << kProgram << ": " << json.status().message() << std::endl;
    return ExitCode(json.status());
  }
  std::cout << json->dump() << std::endl;
  return ExitAfterPrinting(kProgram, kExitDone);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
