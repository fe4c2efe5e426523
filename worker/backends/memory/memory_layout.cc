#include "worker/backends/memory/memory_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/stream_copy.h"
#include "common/fold/fold.h"
#include "worker/backends/memory/memory_orders.h"

namespace gradwire {
namespace {

constexpr uint64_t kLine = 64;  // of the cache
// A smaller bucket is not divided: to wait for several workers costs more than to add it.
constexpr uint64_t kSmallBytes = 32 << 10;

// A larger bucket drives its own terms out of the caches before they are added up.
constexpr uint64_t kStreamedBytes = 8 << 20;

// Most ranges that a layout maps for its joined means: the kernel allows a process 65,530.
constexpr size_t kMostRanges = 4096;

uint64_t RoundUp(uint64_t bytes, uint64_t unit = kLine) { return (bytes + unit - 1) / unit * unit; }

// Copies `bytes` of a bucket of `bucket_bytes`. The copy can be published.
void CopyBucket(const uint8_t* from, uint64_t bytes, uint64_t bucket_bytes, void* to) {
  if (bucket_bytes < kStreamedBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  StreamCopy(from, bytes, to);
  StreamFence();
}

// Returns the space of a bucket's mean; one that is read in place has pages of its own.
uint64_t MeanSpace(const BucketFormat& format) {
  return RoundUp(format.mean_bytes(), format.mean_in_place ? PageBytes() : kLine);
}

// Returns where the means begin behind `buckets` and `ranks` times `term_bytes`.
uint64_t MeansBehind(size_t buckets, size_t ranks, uint64_t term_bytes) {
  return RoundUp(buckets * sizeof(MemoryLayout::Progress) + ranks * term_bytes, PageBytes());
}

}  // namespace

std::string MemoryName(const View& view, Incarnation worker, const std::string& what) {
  return absl::StrCat("gradwire-", absl::Hex(worker.value()), "-", view.generation.value(), "-",
                      what);
}

namespace {

std::vector<BucketFormat> FormatsOf(absl::Span<const BucketSpec> buckets, const MemoryWire& wire) {
  std::vector<BucketFormat> formats;
  for (const BucketSpec& bucket : buckets) formats.push_back(FormatOf(bucket, wire));
  return formats;
}

// Returns the terms as they are stored.
std::vector<BucketSpec> TermsOf(std::vector<BucketSpec> buckets,
                                const std::vector<BucketFormat>& formats) {
  for (size_t i = 0; i < buckets.size(); ++i) {
    buckets[i].dtype = formats[i].term;
    buckets[i].bytes = formats[i].term_bytes();
  }
  return buckets;
}

}  // namespace

MemoryLayout::MemoryLayout(const View& view, LayoutId id, std::vector<BucketSpec> buckets,
                           const MemoryWire& wire, Compressors* compressors)
    : view_(view),
      id_(id),
      buckets_(std::move(buckets)),
      compressors_(compressors),
      formats_(FormatsOf(buckets_, wire)),
      blocks_(TermsOf(buckets_, formats_), view.world_size),
      residuals_(buckets_.size()),
      memory_(view.members.size()),
      carrier_(view.world_size),
      place_(view.world_size) {
  for (const BucketFormat& format : formats_) {
    term_offsets_.push_back(term_bytes_);
    mean_offsets_.push_back(mean_bytes_);
    term_bytes_ += RoundUp(format.term_bytes());
    mean_bytes_ += MeanSpace(format);
  }
  for (size_t worker = 0; worker < view.members.size(); ++worker) {
    const Member& member = view.members[worker];
    if (member.incarnation == view.self) self_ = worker;
    for (size_t place = 0; place < member.ranks.size(); ++place) {
      carrier_[member.ranks[place].value()] = worker;
      place_[member.ranks[place].value()] = place;
    }
  }
}

size_t MemoryLayout::MeansAt(size_t worker) const {
  return MeansBehind(buckets_.size(), view_.members[worker].ranks.size(), term_bytes_);
}

size_t MemoryLayout::BytesOf(size_t worker) const {
  return std::max<size_t>(kLine, MeansAt(worker) + mean_bytes_);
}

uint64_t MemoryLayout::BytesOf(absl::Span<const BucketSpec> buckets, const MemoryWire& wire,
                               size_t ranks) {
  uint64_t terms = 0, means = 0;
  for (const BucketFormat& format : FormatsOf(buckets, wire)) {
    terms += RoundUp(format.term_bytes());
    means += MeanSpace(format);
  }
  return std::max(kLine, MeansBehind(buckets.size(), ranks, terms) + means);
}

std::string MemoryLayout::NameOf(size_t worker) const {
  return MemoryName(view_, view_.members[worker].incarnation, absl::StrCat("layout-", id_.value()));
}

absl::Status MemoryLayout::Make() {
  absl::StatusOr<SharedMemory> made =
      SharedMemory::Make(NameOf(self_), BytesOf(self_), SharedMemory::Writer::kMaker);
  if (!made.ok()) return made.status();
  memory_[self_] = std::make_shared<const SharedMemory>(*std::move(made));
  return absl::OkStatus();
}

absl::Status MemoryLayout::Open(size_t* at) {
  if (open_) return absl::OkStatus();
  for (size_t worker = 0; worker < memory_.size(); ++worker) {
    if (memory_[worker] != nullptr) continue;
    *at = worker;
    absl::StatusOr<SharedMemory> opened = SharedMemory::Open(
        view_.members[worker].pid, NameOf(worker), BytesOf(worker), SharedMemory::Writer::kMaker);
    if (!opened.ok()) return opened.status();
    memory_[worker] = std::make_shared<const SharedMemory>(*std::move(opened));
    if (joined_ == nullptr) continue;
    if (absl::Status mapped = MapMeansOf(worker, joined_.get()); !mapped.ok()) return mapped;
  }
  open_ = true;
  return absl::OkStatus();
}

absl::Status MemoryLayout::MapMeansOf(size_t worker, JoinedMemory* joined) const {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Part part = PartOf(worker, Bucket(static_cast<int>(i)));
    if (!formats_[i].mean_in_place || part.count == 0) continue;
    const size_t at = mean_offsets_[i] + part.first * sizeof(float);
    const size_t bytes = RoundUp(part.count * sizeof(float), PageBytes());
    absl::Status mapped = joined->Map(at, *memory_[worker], MeansAt(worker) + at, bytes);
    if (!mapped.ok()) return mapped;
  }
  return absl::OkStatus();
}

Exchange::Memory MemoryLayout::TermsMemory(Rank rank, Bucket bucket) const {
  const BucketFormat& format = formats_[bucket.value()];
  if (!is_made() || !format.term_in_place) return {};
  return {{const_cast<uint8_t*>(Terms(rank, bucket)), format.term_bytes()}, memory_[self_]};
}

Exchange::Memory MemoryLayout::MeansMemory(Bucket bucket) {
  const BucketFormat& format = formats_[bucket.value()];
  if (!is_made() || !format.mean_in_place || buckets_.size() * memory_.size() > kMostRanges)
    return {};
  if (joined_ == nullptr) {
    auto joined = std::make_shared<JoinedMemory>();
    absl::Status mapped = joined->Reserve(mean_bytes_);
    for (size_t worker = 0; mapped.ok() && worker < memory_.size(); ++worker) {
      if (memory_[worker] != nullptr) mapped = MapMeansOf(worker, joined.get());
    }
    if (!mapped.ok()) return {};  // the mean is copied
    joined_ = std::move(joined);
  }
  return {{joined_->data() + mean_offsets_[bucket.value()], format.mean_bytes()}, joined_};
}

bool MemoryLayout::IsJoined(Bucket bucket, absl::Span<uint8_t> result) const {
  return joined_ != nullptr && result.data() == joined_->data() + mean_offsets_[bucket.value()];
}

uint8_t* MemoryLayout::At(size_t worker) const { return memory_[worker]->data(); }

const uint8_t* MemoryLayout::Terms(Rank rank, Bucket bucket) const {
  return At(carrier_[rank.value()]) + buckets_.size() * sizeof(Progress) +
         place_[rank.value()] * term_bytes_ + term_offsets_[bucket.value()];
}

MemoryLayout::Progress* MemoryLayout::ProgressOf(size_t worker, Bucket bucket) const {
  return reinterpret_cast<Progress*>(At(worker)) + bucket.value();
}

MemoryLayout::Part MemoryLayout::PartOf(size_t worker, Bucket bucket) const {
  const BucketFormat& format = formats_[bucket.value()];
  const size_t workers = memory_.size();
  if (buckets_[bucket.value()].bytes < kSmallBytes) {
    return {0, bucket.value() % workers == worker ? format.elements : 0};
  }
  const uint64_t units = (format.elements + format.alignment - 1) / format.alignment;
  const uint64_t each = (units + workers - 1) / workers * format.alignment;
  const uint64_t first = std::min(format.elements, each * worker);
  return {first, std::min(format.elements, first + each) - first};
}

MemoryLayout::Rounding MemoryLayout::Write(const BucketKey& key, Rank rank,
                                           absl::Span<const uint8_t> terms) {
  const BucketFormat& format = formats_[key.bucket.value()];
  uint8_t* const to = const_cast<uint8_t*>(Terms(rank, key.bucket));
  const absl::Span<const float> values(reinterpret_cast<const float*>(terms.data()),
                                       format.elements);
  if (format.coding != nullptr) return WriteCoded(key, rank, values);
  if (ElementBytes(format.term) == 2) {
    return {static_cast<uint64_t>(Narrow(values, format.term, to)) << rank.value() % 64};
  }
  if (to != terms.data()) CopyBucket(terms.data(), terms.size(), terms.size(), to);
  return {};
}

MemoryLayout::Rounding MemoryLayout::WriteCoded(const BucketKey& key, Rank rank,
                                                absl::Span<const float> values) {
  Rounding rounding;
  Compressor* compressor = compressors_->Of(id_, rank, key.bucket, values.size());
  const std::vector<uint8_t> payload =
      EncodeTerm(compressor, key.step, 0, values, &rounding.compressed);
  auto* to = reinterpret_cast<float*>(const_cast<uint8_t*>(Terms(rank, key.bucket)));
  formats_[key.bucket.value()].coding->Decode({payload}, {to, values.size()});
  return rounding;
}

void MemoryLayout::Publish(std::atomic<uint64_t> Progress::*point, const BucketKey& key) {
  (ProgressOf(self_, key.bucket)->*point).store(key.step.value() + 1, kPublishOrder);
}

std::vector<size_t> MemoryLayout::Missing(std::atomic<uint64_t> Progress::*point,
                                          const BucketKey& key) const {
  const BucketSpec& spec = buckets_[key.bucket.value()];
  std::vector<size_t> missing;
  for (size_t worker = 0; worker < memory_.size(); ++worker) {
    if (point == &Progress::contributed && !HasTerms(worker, spec)) continue;
    const uint64_t past =
        memory_[worker] == nullptr ? 0 : (ProgressOf(worker, key.bucket)->*point).load(kSeeOrder);
    if (past <= key.step.value()) missing.push_back(worker);
  }
  return missing;
}

bool MemoryLayout::HasTerms(size_t worker, const BucketSpec& spec) const {
  const std::vector<Rank>& ranks = view_.members[worker].ranks;
  return std::any_of(ranks.begin(), ranks.end(),
                     [&spec](Rank rank) { return Contributes(spec, rank); });
}

void MemoryLayout::Fold(Bucket bucket) {
  const BucketFormat& format = formats_[bucket.value()];
  const Part part = PartOf(self_, bucket);
  if (IsBroadcast(buckets_[bucket.value()]) || part.count == 0) return;
  if (format.by_hops) {
    FoldByHops(bucket, part);
  } else if (format.coding != nullptr) {
    FoldCoded(bucket, part);
  } else {
    // A mean of finite terms is finite in the same type, so no value overflows here.
    FoldWhole(bucket, part, MeansOf(self_, bucket, part));
  }
}

std::vector<FoldRange> MemoryLayout::BlocksOf(Bucket bucket, const Part& part) const {
  const uint64_t width = ElementBytes(formats_[bucket.value()].term);
  return blocks_.Cut(bucket, part.first * width, part.count * width);
}

uint8_t* MemoryLayout::MeansOf(size_t worker, Bucket bucket, const Part& part) const {
  return At(worker) + MeansAt(worker) + mean_offsets_[bucket.value()] +
         part.first * ElementBytes(formats_[bucket.value()].mean);
}

void MemoryLayout::FoldWhole(Bucket bucket, const Part& part, uint8_t* out) {
  const v1::DType dtype = formats_[bucket.value()].term;
  const uint64_t width = ElementBytes(dtype);
  std::vector<ByteSpans> terms;
  for (int rank = 0; rank < view_.world_size; ++rank) {
    terms.push_back({{Terms(Rank(rank), bucket) + part.first * width, part.count * width}});
  }
  gradwire::Fold(terms, dtype, BlocksOf(bucket, part), {out, part.count * width});
}

void MemoryLayout::FoldByHops(Bucket bucket, const Part& part) {
  std::vector<const float*> terms;
  for (int rank = 0; rank < view_.world_size; ++rank) {
    terms.push_back(reinterpret_cast<const float*>(Terms(Rank(rank), bucket)) + part.first);
  }
  const v1::DType dtype = formats_[bucket.value()].mean;
  ProgressOf(self_, bucket)->overflow =
      gradwire::FoldByHops(terms, dtype, BlocksOf(bucket, part),
                           {MeansOf(self_, bucket, part), part.count * ElementBytes(dtype)});
}

void MemoryLayout::FoldCoded(Bucket bucket, const Part& part) {
  const Coding& coding = *formats_[bucket.value()].coding;
  folded_.resize(part.count);
  FoldWhole(bucket, part, reinterpret_cast<uint8_t*>(folded_.data()));
  std::vector<float>& residual = residuals_[bucket.value()];
  if (coding.has_residual()) residual.resize(part.count);
  const std::vector<uint8_t> payload = coding.EncodeMean(folded_, absl::MakeSpan(residual));
  coding.Decode({payload}, {reinterpret_cast<float*>(MeansOf(self_, bucket, part)), part.count});
  ProgressOf(self_, bucket)->coded_bytes = payload.size();
}

std::vector<KeptValues> MemoryLayout::Kept() {
  std::vector<KeptValues> kept;
  compressors_->AddKept(id_, buckets_, view_.OwnRanks(), &kept);
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket bucket(static_cast<int>(b));
    const Coding* const coding = formats_[b].coding;
    const Part part = PartOf(self_, bucket);
    if (coding == nullptr || !coding->has_residual() || part.count == 0) continue;
    residuals_[b].resize(part.count);
    kept.push_back(KeptOfMean(bucket, part.first, absl::MakeSpan(residuals_[b])));
  }
  return kept;
}

bool MemoryLayout::Receives(const BucketSpec& spec) const {
  const int world_size = view_.world_size;
  switch (CollectiveOf(spec)) {
    case v1::COLLECTIVE_REDUCE:
    case v1::COLLECTIVE_GATHER:
      return view_.Carries(spec.root);
    case v1::COLLECTIVE_SEND_RECV:
      return view_.Carries(Rank((spec.root.value() + world_size - 1) % world_size));
    default:
      return true;
  }
}

void MemoryLayout::ReadParts(Bucket bucket, absl::Span<uint8_t> result) const {
  const uint64_t bytes = result.size();
  const uint64_t ranks = view_.world_size;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    const auto begin_of = [&](uint64_t part) {
      return bytes / ranks * part + std::min(part, bytes % ranks);
    };
    const uint64_t begin = begin_of(rank);
    std::memcpy(result.data() + begin, Terms(Rank(static_cast<int>(rank)), bucket) + begin,
                begin_of(rank + 1) - begin);
  }
}

MemoryLayout::Rounding MemoryLayout::ReadMeans(Bucket bucket, absl::Span<uint8_t> result) const {
  const BucketFormat& format = formats_[bucket.value()];
  const uint64_t width = ElementBytes(format.mean);
  auto* const values = reinterpret_cast<float*>(result.data());
  Rounding read;
  for (size_t worker = 0; worker < memory_.size(); ++worker) {
    const Part part = PartOf(worker, bucket);
    if (part.count == 0) continue;
    const absl::Span<const uint8_t> means(MeansOf(worker, bucket, part), part.count * width);
    if (width == sizeof(float)) {
      CopyBucket(means.data(), means.size(), result.size(), values + part.first);
    } else {
      Widen({means}, format.mean, {values + part.first, part.count});
    }
    const Progress& progress = *ProgressOf(worker, bucket);
    read.overflow |= progress.overflow;
    if (format.coding != nullptr) read.compressed += {means.size(), progress.coded_bytes};
  }
  return read;
}

void MemoryLayout::ReadTerms(Bucket bucket, absl::Span<uint8_t> result) const {
  const BucketSpec& spec = buckets_[bucket.value()];
  if (!IsBroadcast(spec) || !Receives(spec)) return;
  const v1::Collective collective = CollectiveOf(spec);
  if (collective == v1::COLLECTIVE_GATHER || collective == v1::COLLECTIVE_ALL_GATHER) {
    return ReadParts(bucket, result);
  }
  CopyBucket(Terms(spec.root, bucket), result.size(), result.size(), result.data());
}

MemoryLayout::Rounding MemoryLayout::Read(Bucket bucket, absl::Span<uint8_t> result) const {
  const BucketSpec& spec = buckets_[bucket.value()];
  return IsBroadcast(spec) || !Receives(spec) ? Rounding() : ReadMeans(bucket, result);
}

}  // namespace gradwire
