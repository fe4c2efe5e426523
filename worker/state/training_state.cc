#include "worker/state/training_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/state/state_plan.h"
#include "worker/state/kept_state.h"
#include "worker/sync/pseudo_gradient.h"

namespace gradwire {
namespace {

constexpr char kMomentum[] = "momentum_buffer";

std::string BufferName(const Model& model, const torch::Tensor& buffer) {
  for (const auto& item : model.named_buffers()) {
    if (item.value().is_same(buffer)) return item.key();
  }
  return "";
}

// Buffers that training changes.
NamedTensors BuffersOf(const Model& model) {
  NamedTensors named;
  for (const torch::Tensor& buffer : model.trained_buffers()) {
    named.emplace_back(BufferName(model, buffer), buffer);
  }
  return named;
}

// The others, such as those of a frozen extractor.
NamedTensors FrozenBuffersOf(const Model& model) {
  const std::vector<torch::Tensor> trained = model.trained_buffers();
  NamedTensors frozen;
  for (const auto& item : model.named_buffers()) {
    const auto is_it = [&item](const torch::Tensor& other) { return other.is_same(item.value()); };
    if (std::any_of(trained.begin(), trained.end(), is_it)) continue;
    frozen.emplace_back(item.key(), item.value());
  }
  return frozen;
}

std::string BufferKey(Rank rank, const std::string& name) {
  return absl::StrCat(rank.value(), "/buffers/", name);
}

// The tensors of a rank that take turns in the module, with the start of their keys.
NamedTensors OwnTensors(const TrainingParts& parts, Rank rank) {
  NamedTensors own;
  for (const auto& [name, buffer] : BuffersOf(*parts.model)) {
    own.emplace_back(BufferKey(rank, name), buffer);
  }
  if (parts.sync->outer() == nullptr) return own;
  for (const auto& [name, parameter] : ParametersOf(*parts.model)) {
    if (!parameter.requires_grad()) continue;
    own.emplace_back(absl::StrCat(rank.value(), "/parameters/", name), parameter);
  }
  return own;
}

// The parts of a bucket of the outer step; the last one may hold buffers.
std::vector<PartOfBucket> PartsOfOuter(const TrainingParts& parts, const NamedTensors& parameters,
                                       size_t bucket) {
  if (bucket < parts.reducer->gradient_buckets()) {
    return PartsOfGradients(*parts.reducer, parameters, bucket);
  }
  std::vector<PartOfBucket> of_bucket;
  int64_t first = 0;
  for (const torch::Tensor& tensor : parts.sync->outer()->tensors(bucket)) {
    of_bucket.push_back({BufferName(*parts.model, tensor), tensor, first});
    first += tensor.numel();
  }
  return of_bucket;
}

// The names of what the exchange keeps. Only gradients are compressed.
PartsOfBuckets PartsOfKept(const TrainingParts& parts) {
  return [&parts, parameters = ParametersOf(*parts.model)](size_t bucket) {
    return PartsOfGradients(*parts.reducer, parameters, bucket);
  };
}

torch::Tensor Slice(const torch::Tensor& flat, const PartOfBucket& part) {
  return flat.narrow(0, part.first, part.tensor.numel()).view(part.tensor.sizes());
}

// The state of the optimizers, by bucket, under PREFIX + PARAMETER/NAME.
void CopyOptimizer(const TrainingParts& parts, const NamedTensors& parameters,
                   const std::string& section, const std::string& prefix,
                   absl::Span<SlicedOptimizer> optimizers, std::vector<StateTensorRef>* out) {
  for (size_t bucket = 0; bucket < optimizers.size(); ++bucket) {
    const OptimizerKind& kind = optimizers[bucket].kind();
    const std::vector<torch::Tensor> state = optimizers[bucket].State();
    for (const PartOfBucket& part : PartsOfGradients(*parts.reducer, parameters, bucket)) {
      for (size_t i = 0; i < state.size(); ++i) {
        const bool shared = kind.dimensions[i] == 0;
        out->push_back({section, absl::StrCat(prefix, part.name, "/", kind.names[i]),
                        shared ? state[i] : Slice(state[i], part), section == kOptimizerSection});
      }
    }
  }
}

// The tensors that all have in common come first: the coordinator finds their names by that.
void CopyRanks(const TrainingParts& parts, const NamedTensors& parameters,
               std::vector<StateTensorRef>* out) {
  for (const auto& [name, buffer] : FrozenBuffersOf(*parts.model)) {
    out->push_back({kRanksSection, BufferKey(Rank(0), name), buffer.detach().clone(), true});
  }
  const bool own_models = parts.sync->outer() != nullptr;
  const absl::Span<const Rank> ranks = parts.reducer->ranks();
  for (size_t i = 0; i < ranks.size(); ++i) {
    parts.reducer->BeginForward(ranks[i]);
    const bool common = parts.broadcast && !own_models;
    for (const auto& [key, tensor] : OwnTensors(parts, common ? Rank(0) : ranks[i])) {
      out->push_back({kRanksSection, key, tensor.detach().clone(), common});
    }
    if (common) return;
    if (!own_models) continue;
    CopyOptimizer(parts, parameters, kRanksSection, absl::StrCat(ranks[i].value(), "/optimizer/"),
                  parts.optimizers(i), out);
  }
}

void CopyOuter(const TrainingParts& parts, const NamedTensors& parameters,
               std::vector<StateTensorRef>* out) {
  const PseudoGradient::State state = parts.sync->outer()->Capture();
  for (size_t bucket = 0; bucket < state.anchors.size(); ++bucket) {
    const bool buffers = bucket >= parts.reducer->gradient_buckets();
    for (const PartOfBucket& part : PartsOfOuter(parts, parameters, bucket)) {
      if (buffers) {
        out->push_back({kOuterSection, absl::StrCat("anchor/", part.name),
                        Slice(state.anchors[bucket], part), true});
      }
      for (const torch::Tensor& momentum : state.momenta[bucket]) {
        out->push_back(
            {kOuterSection, absl::StrCat(kMomentum, "/", part.name), Slice(momentum, part), true});
      }
    }
  }
}

// Parameters that are not exchanged are those of the module.
void CopyModel(const TrainingParts& parts, const NamedTensors& parameters,
               std::vector<StateTensorRef>* out) {
  const size_t first = out->size();
  const bool from_module = parts.sync->outer() == nullptr;
  for (const auto& [name, parameter] : parameters) {
    const bool copied = from_module || !parameter.requires_grad();
    out->push_back(
        {kModelSection, name, copied ? parameter.detach().clone() : torch::Tensor(), true});
  }
  if (from_module) return;
  const PseudoGradient::State state = parts.sync->outer()->Capture();
  for (size_t bucket = 0; bucket < parts.reducer->gradient_buckets(); ++bucket) {
    const std::vector<size_t> indices = parts.reducer->IndicesOf(bucket);
    const std::vector<PartOfBucket> of_bucket =
        PartsOfGradients(*parts.reducer, parameters, bucket);
    for (size_t i = 0; i < indices.size(); ++i) {
      (*out)[first + indices[i]].tensor = Slice(state.anchors[bucket], of_bucket[i]);
    }
  }
}

absl::Status GetOptimizerOfBucket(const TrainingParts& parts, const StateReader& reader,
                                  const std::string& section, const std::string& prefix,
                                  size_t bucket, SlicedOptimizer* optimizer) {
  const OptimizerKind& kind = optimizer->kind();
  const std::vector<PartOfBucket> of_bucket =
      PartsOfGradients(*parts.reducer, ParametersOf(*parts.model), bucket);
  std::vector<torch::Tensor> state;
  for (size_t i = 0; i < kind.names.size(); ++i) {
    std::vector<torch::Tensor> values;
    for (const PartOfBucket& part : of_bucket) {
      const bool shared = kind.dimensions[i] == 0;
      values.push_back(shared ? torch::zeros({}, torch::kLong)
                              : torch::empty(part.tensor.sizes(), torch::kFloat));
      absl::Status got =
          reader.Get(section, absl::StrCat(prefix, part.name, "/", kind.names[i]), values.back());
      if (!got.ok()) return got;
      values.back() = shared ? values.back() : values.back().view({-1});
    }
    state.push_back(kind.dimensions[i] == 0 ? values.front() : torch::cat(values));
  }
  return optimizer->SetState(state);
}

// An optimizer without state, such as SGD without momentum, has no tensors at all.
absl::Status GetOptimizer(const TrainingParts& parts, const StateReader& reader,
                          const std::string& section, const std::string& prefix,
                          absl::Span<SlicedOptimizer> optimizers) {
  if (optimizers.empty()) return absl::OkStatus();
  const NamedTensors parameters = ParametersOf(*parts.model);
  const std::string& first = parameters[parts.reducer->IndicesOf(0).front()].first;
  const std::string key = absl::StrCat(prefix, first, "/", optimizers.front().kind().names.front());
  if (reader.Find(section, key) == nullptr) return absl::OkStatus();
  for (size_t bucket = 0; bucket < optimizers.size(); ++bucket) {
    absl::Status got =
        GetOptimizerOfBucket(parts, reader, section, prefix, bucket, &optimizers[bucket]);
    if (!got.ok()) return got;
  }
  return absl::OkStatus();
}

absl::Status GetRank(const TrainingParts& parts, const StateReader& reader, size_t index) {
  const Rank rank = parts.reducer->ranks()[index];
  parts.reducer->BeginForward(rank);
  for (const auto& [key, tensor] : OwnTensors(parts, rank)) {
    absl::Status got = reader.Get(kRanksSection, key, tensor.detach());
    if (!got.ok()) return got;
  }
  parts.reducer->EndForward(rank);
  if (parts.sync->outer() == nullptr) return absl::OkStatus();
  return GetOptimizer(parts, reader, kRanksSection, absl::StrCat(rank.value(), "/optimizer/"),
                      parts.optimizers(index));
}

absl::Status GetOuter(const TrainingParts& parts, const StateReader& reader) {
  PseudoGradient* const outer = parts.sync->outer();
  const NamedTensors parameters = ParametersOf(*parts.model);
  PseudoGradient::State state = outer->Capture();
  for (size_t bucket = 0; bucket < state.anchors.size(); ++bucket) {
    std::vector<torch::Tensor> momenta;
    for (const PartOfBucket& part : PartsOfOuter(parts, parameters, bucket)) {
      const std::string key = absl::StrCat(kMomentum, "/", part.name);
      if (reader.Find(kOuterSection, key) == nullptr) continue;
      momenta.push_back(torch::empty(part.tensor.sizes(), torch::kFloat));
      if (absl::Status got = reader.Get(kOuterSection, key, momenta.back()); !got.ok()) return got;
      momenta.back() = momenta.back().view({-1});
    }
    if (!momenta.empty()) state.momenta[bucket] = {torch::cat(momenta)};
  }
  return outer->Restore(state);
}

}  // namespace

std::vector<StateTensorRef> TrainingState::Copy() {
  const TrainingParts& parts = parts_;
  const torch::NoGradGuard values_only;
  const NamedTensors parameters = ParametersOf(*parts.model);
  std::vector<StateTensorRef> tensors;
  CopyModel(parts, parameters, &tensors);
  if (parts.sync->outer() == nullptr) {
    CopyOptimizer(parts, parameters, kOptimizerSection, "", parts.optimizers(0), &tensors);
  }
  CopyRanks(parts, parameters, &tensors);
  if (parts.sync->outer() != nullptr) CopyOuter(parts, parameters, &tensors);
  if (parts.kept) CopyKept(parts.kept(), PartsOfKept(parts), &tensors);
  return tensors;
}

// The model of the last exchange is the anchor that Attach takes from the module.
absl::Status TrainingState::RestoreCommon(const StateReader& reader) {
  const TrainingParts& parts = parts_;
  const torch::NoGradGuard values_only;
  const bool own_models = parts.reducer->updater() == Updater::kRank;
  for (const auto& [name, parameter] : ParametersOf(*parts.model)) {
    absl::Status got = reader.Get(kModelSection, name, parameter.detach());
    if (!got.ok()) return got;
  }
  for (const auto& [name, buffer] : BuffersOf(*parts.model)) {
    const std::string anchor = absl::StrCat("anchor/", name);
    absl::Status got;
    if (own_models && reader.Find(kOuterSection, anchor) != nullptr) {
      got = reader.Get(kOuterSection, anchor, buffer);
    }
    if (!own_models && parts.broadcast) {
      got = reader.Get(kRanksSection, BufferKey(Rank(0), name), buffer);
    }
    if (!got.ok()) return got;
  }
  for (const auto& [name, buffer] : FrozenBuffersOf(*parts.model)) {
    const std::string key = BufferKey(Rank(0), name);
    // The first builds of 0.2.0 did not keep them.
    if (reader.Find(kRanksSection, key) == nullptr) continue;
    if (absl::Status got = reader.Get(kRanksSection, key, buffer); !got.ok()) return got;
  }
  return own_models ? absl::OkStatus()
                    : GetOptimizer(parts, reader, kOptimizerSection, "", parts.optimizers(0));
}

absl::Status TrainingState::RestoreOwn(const StateReader& reader) {
  const TrainingParts& parts = parts_;
  const torch::NoGradGuard values_only;
  if (parts.kept) {
    absl::Status got = RestoreKept(reader, PartsOfKept(parts), parts.kept());
    if (!got.ok()) return got;
  }
  const bool own_models = parts.sync->outer() != nullptr;
  if (parts.broadcast && !own_models) return absl::OkStatus();
  for (size_t i = 0; i < parts.reducer->ranks().size(); ++i) {
    if (absl::Status got = GetRank(parts, reader, i); !got.ok()) return got;
  }
  // The reducer counts each rank's EndForward as a step that could be undone.
  if (parts.undoable) parts.reducer->Keep();
  return own_models ? GetOuter(parts, reader) : absl::OkStatus();
}

}  // namespace gradwire
