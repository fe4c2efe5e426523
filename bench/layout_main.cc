// gradwire-layout: what a worker with these options would exchange, as JSON:
// parameters, buffers, buckets, and, if a data set is named, its training samples.
#include <torch/version.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/logging.h"
#include "common/base/status_util.h"
#include "worker/data/datasets/dataset.h"
#include "worker/ddp/model_layout.h"
#include "worker/ddp/reducer.h"
#include "worker/options/worker_option_parser.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgram[] = "gradwire-layout";
constexpr int64_t kUsualClasses = 10;

Json TensorsJson(const Layout& layout, bool buffers) {
  Json tensors = Json::array();
  for (const TensorSpec& tensor : layout) {
    if (tensor.buffer != buffers) continue;
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", tensor.dtype}});
  }
  return tensors;
}

Json BucketsJson(const std::vector<BucketSpec>& buckets) {
  Json json = Json::array();
  for (const BucketSpec& bucket : buckets) {
    json.push_back({{"bytes", bucket.bytes}, {"averaged", bucket.dtype == v1::DTYPE_FLOAT32}});
  }
  return json;
}

absl::StatusOr<Json> Describe(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  Json json = {{"torch", TORCH_VERSION}};
  int64_t classes = kUsualClasses;
  if (parsed.sources.at("dataset").layer != Layer::kDefault) {
    const auto dataset = LoadDataset(options.dataset, options.data_dir, Split::kTrain);
    if (!dataset.ok()) return dataset.status();
    classes = (*dataset)->classes;
    json["samples"] = (*dataset)->size();
  }
  const absl::StatusOr<std::shared_ptr<Model>> model =
      PrepareModel(ModelOptionsOf(options, classes));
  if (!model.ok()) return model.status();
  ReducerOptions reducer_options;
  reducer_options.broadcast_buffers = options.broadcast_buffers;
  reducer_options.bucket_cap_bytes = options.bucket_cap_mb * (1 << 20);
  const auto reducer =
      Reducer::Create((*model)->parameters(), (*model)->trained_buffers(), reducer_options);
  if (!reducer.ok()) return reducer.status();
  const Layout layout = LayoutOf(**model);
  json["parameters"] = TensorsJson(layout, false);
  json["buffers"] = TensorsJson(layout, true);
  json["buckets"] = BucketsJson((*reducer)->BucketSpecs());
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
  return std::cout.good() ? kExitDone : kExitFailed;
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
