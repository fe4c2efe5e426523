#include "library/program_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_util.h"
#include "common/state/state_plan.h"

namespace gradwire {
namespace {

constexpr char kOptimizer[] = "optimizer";
constexpr char kBuckets[] = "buckets";
constexpr char kRandom[] = "random";
constexpr char kHooks[] = "hooks/";

// A tensor of the state has at least one element, so a byte precedes those of the program.
torch::Tensor ToTensor(const std::string& bytes) {
  const torch::Tensor tensor = torch::zeros({static_cast<int64_t>(bytes.size()) + 1}, torch::kByte);
  std::memcpy(tensor.data_ptr<uint8_t>() + 1, bytes.data(), bytes.size());
  return tensor;
}

absl::StatusOr<std::string> GetBytes(const StateReader& reader, const std::string& key) {
  const v1::StateTensor* const found = reader.Find(kProgramSection, key);
  const int64_t size = found != nullptr && found->shape_size() == 1 ? found->shape(0) : 1;
  const torch::Tensor tensor = torch::zeros({size}, torch::kByte);
  if (absl::Status got = reader.Get(kProgramSection, key, tensor); !got.ok()) return got;
  return std::string(reinterpret_cast<const char*>(tensor.data_ptr<uint8_t>()) + 1,
                     static_cast<size_t>(size - 1));
}

}  // namespace

absl::Status ProgramState::Attach(torch::optim::Optimizer* optimizer) {
  if (optimizer_.has_value()) {
    return absl::FailedPreconditionError("attach: got a second optimizer, expected one");
  }
  absl::StatusOr<OptimizerState> made =
      OptimizerState::Make(optimizer, ParametersOf(*parts_.module));
  if (!made.ok()) return made.status();
  optimizer_ = *std::move(made);
  return absl::OkStatus();
}

absl::Status ProgramState::Attach(const std::string& name, StateHooks hooks) {
  if (name.empty() || name.find('/') != std::string::npos || hooks_.count(name) > 0) {
    return Unexpected("attach", absl::StrCat("the name '", name, "'"),
                      "a new one that is not empty and has no '/'");
  }
  if (!hooks.capture || !hooks.restore) {
    return Unexpected(
        "attach",
        absl::StrCat("hooks '", name, "' without ", hooks.capture ? "restore" : "capture"), "both");
  }
  hooks_[name] = std::move(hooks);
  return absl::OkStatus();
}

absl::Status ProgramState::CheckTypes() const {
  NamedTensors tensors = ParametersOf(*parts_.module);
  for (const auto& item : parts_.module->named_buffers()) {
    tensors.emplace_back(item.key(), item.value());
  }
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() == 0 || !StateTypeOf(tensor).empty()) continue;
    return Unexpected(
        absl::StrCat("resume: type of '", name, "'"), c10::toString(tensor.scalar_type()),
        "a type of real numbers, integers or Bool, because a checkpoint has no other");
  }
  return absl::OkStatus();
}

void ProgramState::OnCommit(int64_t step) const {
  for (const auto& [name, hooks] : hooks_) {
    if (hooks.on_commit) hooks.on_commit(step);
  }
}

std::string ProgramState::KeyOf(const std::string& name) const {
  return absl::StrCat(parts_.rank.value(), "/", name);
}

std::string ProgramState::KeyOfBuffer(const std::string& name) const {
  return absl::StrCat(parts_.broadcast ? 0 : parts_.rank.value(), "/buffers/", name);
}

PartsOfBuckets ProgramState::PartsOfKept() const {
  return [this, parameters = ParametersOf(*parts_.module)](size_t bucket) {
    return PartsOfGradients(*parts_.reducer, parameters, bucket);
  };
}

std::vector<StateTensorRef> ProgramState::Copy() {
  const torch::NoGradGuard values_only;
  std::vector<StateTensorRef> tensors;
  for (const auto& [name, parameter] : ParametersOf(*parts_.module)) {
    if (parameter.numel() == 0) continue;  // a checkpoint has no empty tensors
    tensors.push_back({kModelSection, name, parameter.detach().clone(), /*common=*/true});
  }
  optimizer_->Copy(&tensors);
  for (const auto& item : parts_.module->named_buffers()) {
    if (item.value().numel() == 0) continue;
    tensors.push_back(
        {kRanksSection, KeyOfBuffer(item.key()), item.value().detach().clone(), parts_.broadcast});
  }
  const std::vector<KeptValues> kept = parts_.kept();
  CopyKept(kept, PartsOfKept(), &tensors);
  const auto add = [&](const std::string& name, torch::Tensor tensor) {
    tensors.push_back({kProgramSection, KeyOf(name), std::move(tensor), /*common=*/false});
  };
  add(kOptimizer, ToTensor(optimizer_->description()));
  if (!kept.empty()) add(kBuckets, ToTensor(BucketSizes()));
  at::Generator random = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard<std::mutex> lock(random.mutex());
    add(kRandom, random.get_state());
  }
  for (const auto& [name, hooks] : hooks_) add(kHooks + name, ToTensor(hooks.capture()));
  return tensors;
}

absl::Status ProgramState::CheckOptimizer(const StateReader& reader) const {
  const absl::StatusOr<std::string> expected = GetBytes(reader, KeyOf(kOptimizer));
  if (!expected.ok()) return expected.status();
  if (*expected == optimizer_->description()) return absl::OkStatus();
  return Unexpected("resume: the optimizer and its groups", optimizer_->description(),
                    absl::StrCat(*expected, ", as in the checkpoint"));
}

std::string ProgramState::BucketSizes() const {
  std::vector<size_t> sizes;
  for (size_t bucket = 0; bucket < parts_.reducer->gradient_buckets(); ++bucket) {
    sizes.push_back(parts_.reducer->IndicesOf(bucket).size());
  }
  return absl::StrJoin(sizes, ", ");
}

// Codecs cut a bucket into units, so other buckets would give other bits.
absl::Status ProgramState::CheckBuckets(const StateReader& reader) const {
  if (reader.Find(kProgramSection, KeyOf(kBuckets)) == nullptr) return absl::OkStatus();
  const absl::StatusOr<std::string> expected = GetBytes(reader, KeyOf(kBuckets));
  if (!expected.ok()) return expected.status();
  if (*expected == BucketSizes()) return absl::OkStatus();
  return Unexpected("resume: parameters in each bucket", BucketSizes(),
                    absl::StrCat(*expected,
                                 ", as in the checkpoint; with compress, bucket_cap_mb must be "
                                 "that of the run that made it"));
}

absl::Status ProgramState::RestoreCommon(const StateReader& reader) {
  const torch::NoGradGuard values_only;
  if (absl::Status same = CheckOptimizer(reader); !same.ok()) return same;
  if (absl::Status same = CheckBuckets(reader); !same.ok()) return same;
  for (const auto& [name, parameter] : ParametersOf(*parts_.module)) {
    if (parameter.numel() == 0) continue;
    absl::Status got = reader.Get(kModelSection, name, parameter.detach());
    if (!got.ok()) return got;
  }
  return optimizer_->Restore(reader);
}

absl::Status ProgramState::RestoreOwn(const StateReader& reader) {
  const torch::NoGradGuard values_only;
  for (const auto& item : parts_.module->named_buffers()) {
    if (item.value().numel() == 0) continue;
    absl::Status got = reader.Get(kRanksSection, KeyOfBuffer(item.key()), item.value().detach());
    if (!got.ok()) return got;
  }
  absl::Status restored = RestoreKept(reader, PartsOfKept(), parts_.kept());
  // A hook may draw random numbers, which locks the generator.
  if (restored.ok()) restored = CallHooks(reader);
  if (!restored.ok()) return restored;
  at::Generator random = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(random.mutex());
  torch::Tensor state = random.get_state();
  restored = reader.Get(kProgramSection, KeyOf(kRandom), state);
  if (restored.ok()) random.set_state(state);
  return restored;
}

// A checkpoint has the hooks of the program that made it.
absl::Status ProgramState::CallHooks(const StateReader& reader) const {
  const std::string prefix = KeyOf(kHooks);
  std::set<std::string> got, expected;
  for (const auto& [name, hooks] : hooks_) got.insert(name);
  for (const v1::StateSection& section : reader.catalog().sections()) {
    if (section.name() != kProgramSection) continue;
    for (const v1::StateTensor& tensor : section.tensors()) {
      const std::string& key = tensor.key();
      if (key.compare(0, prefix.size(), prefix) == 0) expected.insert(key.substr(prefix.size()));
    }
  }
  if (got != expected) {
    return Unexpected(
        "resume: names of hooks", absl::StrCat("'", absl::StrJoin(got, "', '"), "'"),
        absl::StrCat("'", absl::StrJoin(expected, "', '"), "', as in the checkpoint"));
  }
  for (const auto& [name, hooks] : hooks_) {
    const absl::StatusOr<std::string> bytes = GetBytes(reader, KeyOf(kHooks + name));
    if (!bytes.ok()) return bytes.status();
    hooks.restore(*bytes);
  }
  return absl::OkStatus();
}

}  // namespace gradwire
