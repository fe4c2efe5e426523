#include "worker/weights/weights.h"

#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_util.h"
#include "worker/weights/safetensors.h"
#include "worker/weights/torch_file.h"

namespace gradwire {
namespace {

std::string Describe(const torch::Tensor& tensor) {
  return absl::StrCat(c10::toString(tensor.scalar_type()), " [",
                      absl::StrJoin(tensor.sizes(), ", "), "]");
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;  // iterators of the buffer would throw for a folder
  if (file.peek() != std::ifstream::traits_type::eof()) bytes << file.rdbuf();
  if (file.is_open() && !file.bad() && bytes.good()) return bytes.str();
  return absl::NotFoundError(absl::StrCat("cannot read ", path));
}

bool Optional(absl::string_view key) { return absl::EndsWith(key, "num_batches_tracked"); }

Weights WithTodaysKeys(Weights weights) {
  Weights today;
  for (auto& [key, tensor] : weights) {
    const bool old = absl::StrContains(key, ".denselayer");
    today.emplace(old ? absl::StrReplaceAll(key, {{"norm.", "norm"}, {"conv.", "conv"}}) : key,
                  std::move(tensor));
  }
  return today;
}

absl::Status CheckOne(const std::string& key, const torch::Tensor& got,
                      const torch::Tensor& expected) {
  if (got.sizes() == expected.sizes() && got.scalar_type() == expected.scalar_type()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("weights: '", key, "': got ", Describe(got), ", expected ", Describe(expected)));
}

absl::Status Check(const Weights& weights, const Weights& own) {
  for (const auto& [key, expected] : own) {
    const auto got = weights.find(key);
    if (got != weights.end()) {
      absl::Status status = CheckOne(key, got->second, expected);
      if (!status.ok()) return status;
    } else if (!Optional(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat("weights: got no '", key, "', expected ", Describe(expected)));
    }
  }
  for (const auto& [key, got] : weights) {
    if (own.count(key) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("weights: got '", key, "' ", Describe(got),
                                                   ", expected no such key in this model"));
  }
  return absl::OkStatus();
}

// Removes and returns the entries that begin with `prefix`.
Weights Split(absl::string_view prefix, Weights* weights) {
  Weights taken;
  for (auto it = weights->begin(); it != weights->end();) {
    if (!absl::StartsWith(it->first, prefix)) {
      ++it;
      continue;
    }
    taken.insert(weights->extract(it++));
  }
  return taken;
}

void Copy(const Weights& weights, Weights* own) {
  const torch::NoGradGuard values_only;
  for (const auto& [key, tensor] : weights) own->at(key).copy_(tensor);
}

}  // namespace

Weights WeightsOf(const torch::nn::Module& model) {
  Weights weights;
  for (const auto& entry : model.named_parameters()) weights.emplace(entry.key(), entry.value());
  for (const auto& entry : model.named_buffers()) weights.emplace(entry.key(), entry.value());
  return weights;
}

absl::StatusOr<Weights> ReadWeights(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadWhole(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Weights> weights =
      IsTorchFile(*bytes) ? ParseTorchFile(*bytes) : ParseSafetensors(*bytes);
  if (!weights.ok()) return Annotate(weights.status(), path);
  return weights;
}

absl::Status WriteWeights(const std::string& path, const Weights& weights) {
  if (absl::EndsWith(path, ".safetensors")) return WriteSafetensors(path, weights);
  if (absl::EndsWith(path, ".pt") || absl::EndsWith(path, ".pth")) {
    return WriteTorchFile(path, weights);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got '", path, "', expected a name that ends in .safetensors, .pt or .pth"));
}

absl::Status LoadWeights(Weights weights, absl::string_view replaced, torch::nn::Module* model) {
  weights = WithTodaysKeys(std::move(weights));
  Weights own = WeightsOf(*model);
  const std::string prefix = absl::StrCat(replaced, ".");
  const Weights last = replaced.empty() ? Weights() : Split(prefix, &weights);
  Weights own_last = replaced.empty() ? Weights() : Split(prefix, &own);
  absl::Status status = Check(weights, own);
  if (!status.ok()) return status;
  Copy(weights, &own);
  if (Check(last, own_last).ok()) Copy(last, &own_last);
  return absl::OkStatus();
}

}  // namespace gradwire
