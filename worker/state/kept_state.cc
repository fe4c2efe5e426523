#include "worker/state/kept_state.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/state/state_plan.h"

namespace gradwire {
namespace {

bool IsOfMean(const KeptValues& values) { return !values.rank.has_value() && values.shape.empty(); }

std::string KeyOfMean(const std::string& tensor) { return absl::StrCat("mean/", tensor, "/"); }

// The elements of one tensor among kept values that have one for each element of the bucket.
struct Overlap {
  int64_t in_tensor = 0;
  torch::Tensor values;  // memory of the exchange; empty: there is none
};

Overlap OverlapOf(const KeptValues& kept, const PartOfBucket& part) {
  const auto first = static_cast<int64_t>(kept.first);
  const int64_t begin = std::max(first, part.first);
  const int64_t end =
      std::min(first + static_cast<int64_t>(kept.values.size()), part.first + part.tensor.numel());
  if (begin >= end) return {0, torch::empty({0})};
  return {begin - part.first,
          torch::from_blob(kept.values.data() + (begin - first), {end - begin}, torch::kFloat)};
}

// A tensor of kept values that are not of the mean, under its name in the state.
struct NamedValues {
  std::string section;
  std::string key;
  torch::Tensor values;  // memory of the exchange
};

std::vector<NamedValues> NamedValuesOf(const KeptValues& kept, const PartsOfBuckets& parts_of) {
  std::vector<NamedValues> named;
  for (const PartOfBucket& part : parts_of(static_cast<size_t>(kept.bucket.value()))) {
    if (kept.rank.has_value()) {
      const torch::Tensor values = OverlapOf(kept, part).values;
      if (values.numel() != part.tensor.numel()) continue;  // a tensor without an error
      named.push_back({kResidualsSection,
                       absl::StrCat(kept.rank->value(), "/", kept.kind, "/", part.name),
                       values.view(part.tensor.sizes())});
    } else if (part.first == static_cast<int64_t>(kept.first)) {
      named.push_back({kCodecSection, absl::StrCat(kept.kind, "/", part.name),
                       torch::from_blob(kept.values.data(), kept.shape, torch::kFloat)});
    }
  }
  return named;
}

void CopyMean(const KeptValues& kept, const PartsOfBuckets& parts_of,
              std::vector<StateTensorRef>* out) {
  for (const PartOfBucket& part : parts_of(static_cast<size_t>(kept.bucket.value()))) {
    const Overlap overlap = OverlapOf(kept, part);
    if (overlap.values.numel() == 0) continue;
    out->push_back({kResidualsSection, absl::StrCat(KeyOfMean(part.name), overlap.in_tensor),
                    overlap.values.clone(), /*common=*/false});
  }
}

// Assembles the mean's error of a whole tensor from the ranges of the state.
absl::Status GetMean(const StateReader& reader, const PartOfBucket& part, torch::Tensor* whole) {
  *whole = torch::empty({part.tensor.numel()}, torch::kFloat);
  const std::string prefix = KeyOfMean(part.name);
  int64_t found = 0;  // elements
  for (const v1::StateSection& section : reader.catalog().sections()) {
    if (section.name() != kResidualsSection) continue;
    for (const v1::StateTensor& range : section.tensors()) {
      if (!absl::StartsWith(range.key(), prefix)) continue;
      int64_t first = 0;
      const int64_t size = range.shape_size() == 1 ? range.shape(0) : -1;
      if (!absl::SimpleAtoi(range.key().substr(prefix.size()), &first) || first < 0 || size < 0 ||
          size > whole->numel() - first) {
        return Unexpected(absl::StrCat("checkpoint: tensor '", range.key(), "'"), "that range",
                          absl::StrCat("one of ", whole->numel(), " elements"));
      }
      absl::Status got = reader.Get(section.name(), range.key(), whole->narrow(0, first, size));
      if (!got.ok()) return got;
      found += size;
    }
  }
  if (found == whole->numel()) return absl::OkStatus();
  return Unexpected(absl::StrCat("checkpoint: tensors '", prefix, "…'"),
                    absl::StrCat(found, " elements"), absl::StrCat(whole->numel()));
}

absl::Status RestoreMeans(const StateReader& reader, const PartsOfBuckets& parts_of, size_t bucket,
                          const std::vector<KeptValues>& of_bucket) {
  for (const PartOfBucket& part : parts_of(bucket)) {
    torch::Tensor whole;
    for (const KeptValues& kept : of_bucket) {
      const Overlap overlap = OverlapOf(kept, part);
      const int64_t size = overlap.values.numel();
      if (size == 0) continue;
      if (!whole.defined()) {
        if (absl::Status got = GetMean(reader, part, &whole); !got.ok()) return got;
      }
      overlap.values.copy_(whole.narrow(0, overlap.in_tensor, size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<PartOfBucket> PartsOfGradients(const Reducer& reducer, const NamedTensors& parameters,
                                           size_t bucket) {
  std::vector<PartOfBucket> of_bucket;
  if (bucket >= reducer.gradient_buckets()) return of_bucket;
  int64_t first = 0;
  for (const size_t index : reducer.IndicesOf(bucket)) {
    const auto& [name, tensor] = parameters[index];
    of_bucket.push_back({name, tensor, first});
    first += tensor.numel();
  }
  return of_bucket;
}

void CopyKept(const std::vector<KeptValues>& kept, const PartsOfBuckets& parts_of,
              std::vector<StateTensorRef>* out) {
  std::vector<StateTensorRef> residuals;
  for (const KeptValues& values : kept) {
    if (IsOfMean(values)) {
      CopyMean(values, parts_of, &residuals);
      continue;
    }
    for (const NamedValues& named : NamedValuesOf(values, parts_of)) {
      const bool common = named.section == kCodecSection;
      (common ? *out : residuals)
          .push_back({named.section, named.key, named.values.clone(), common});
    }
  }
  out->insert(out->end(), residuals.begin(), residuals.end());
}

absl::Status RestoreKept(const StateReader& reader, const PartsOfBuckets& parts_of,
                         const std::vector<KeptValues>& kept) {
  std::vector<std::vector<KeptValues>> means;  // by bucket
  for (const KeptValues& values : kept) {
    if (IsOfMean(values)) {
      const auto bucket = static_cast<size_t>(values.bucket.value());
      if (means.size() <= bucket) means.resize(bucket + 1);
      means[bucket].push_back(values);
      continue;
    }
    for (const NamedValues& named : NamedValuesOf(values, parts_of)) {
      absl::Status got = reader.Get(named.section, named.key, named.values);
      if (!got.ok()) return got;
    }
  }
  for (size_t bucket = 0; bucket < means.size(); ++bucket) {
    absl::Status restored = RestoreMeans(reader, parts_of, bucket, means[bucket]);
    if (!restored.ok()) return restored;
  }
  return absl::OkStatus();
}

}  // namespace gradwire
