#include "worker/backends/low_rank_exchange.h"

#include <algorithm>
#include <utility>

namespace gradwire {
namespace {

absl::Span<const uint8_t> BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
}

absl::Span<uint8_t> BytesOf(absl::Span<float> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

LowRankExchange::LowRankExchange(Exchange* exchange, LowRankPlan plan,
                                 const LowRankLayouts& layouts, std::vector<Rank> ranks)
    : exchange_(exchange), plan_(std::move(plan)), layouts_(layouts), ranks_(std::move(ranks)) {
  for (size_t i = 0; i < plan_.buckets().size(); ++i) {
    buckets_.emplace_back(&plan_.buckets()[i], Bucket(static_cast<int>(i)), ranks_.size());
  }
  transfers_.resize(buckets_.size());
  thread_ = std::thread([this] { Run(); });
}

LowRankExchange::~LowRankExchange() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void LowRankExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  exchange_->AddLayout(layout, std::move(buckets));
}

// Returns the key of the bucket, or of the left exchange of a gradient bucket.
BucketKey LowRankExchange::Below(const BucketKey& key) const {
  if (IsWhole(key)) return {layouts_.whole, key.step, key.bucket};
  const uint64_t first = layouts_.first_step.value();
  const uint64_t whole = layouts_.whole_steps > first ? layouts_.whole_steps - first : 0;
  return {layouts_.factors, Step(key.step.value() - whole),
          plan_.place(static_cast<size_t>(key.bucket.value()))};
}

bool LowRankExchange::IsGradient(const BucketKey& key) const {
  return static_cast<size_t>(key.bucket.value()) < buckets_.size();
}

void LowRankExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                             Done done) {
  if (IsWhole(key)) {
    if (IsGradient(key)) Count({result.size(), result.size()});
    return exchange_->Expect(Below(key), result, deadline, std::move(done));
  }
  Post([this, key, deadline, transfer = Transfer{key.step, result, std::move(done), 0, {}}] {
    Begin(key, deadline, transfer);
  });
}

void LowRankExchange::Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  if (IsWhole(key)) return exchange_->Contribute(Below(key), rank, terms);
  Post([this, key, rank, terms] { Project(key, rank, terms); });
}

void LowRankExchange::Post(std::function<void()> task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
}

// Returns null at the end.
std::function<void()> LowRankExchange::NextTask() {
  MutexLock lock(&mutex_);
  while (tasks_.empty() && !closing_) changed_.Wait(&mutex_);
  if (tasks_.empty()) return nullptr;
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

void LowRankExchange::Run() {
  while (const std::function<void()> task = NextTask()) task();
}

// Expects both exchanges at once, so their order is the order of the buckets on all workers.
void LowRankExchange::Begin(const BucketKey& key, absl::Time deadline, Transfer transfer) {
  BucketKey below = Below(key);
  if (!IsGradient(key)) {
    return exchange_->Expect(below, transfer.result, deadline, std::move(transfer.done));
  }
  const bool has_right = LayoutOf(key).right_size > 0;
  transfer.under_way = has_right ? 2 : 1;
  TransferOf(key) = std::move(transfer);
  exchange_->Expect(below, BytesOf(BucketOf(key).left_mean()), deadline,
                    [this, key](const absl::Status& status) {
                      Post([this, key, status] { OnLeft(key, status); });
                    });
  if (!has_right) return;
  ++below.bucket;
  exchange_->Expect(below, BytesOf(BucketOf(key).right_mean()), deadline,
                    [this, key](const absl::Status& status) {
                      Post([this, key, status] { OnEnd(key, status); });
                    });
}

// A failed bucket no longer uses its terms.
void LowRankExchange::Project(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  if (!IsGradient(key)) return exchange_->Contribute(Below(key), rank, terms);
  if (!TransferOf(key).done) return;
  const auto index =
      static_cast<size_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  const absl::Span<const float> gradient(reinterpret_cast<const float*>(terms.data()),
                                         terms.size() / sizeof(float));
  if (IsResidualMeasured(key.step)) Count({0, 0, SquareOf(gradient)});
  BucketOf(key).Project(index, gradient);
  exchange_->Contribute(Below(key), rank, BytesOf(BucketOf(key).left(index)));
}

void LowRankExchange::OnLeft(const BucketKey& key, const absl::Status& status) {
  if (status.ok() && TransferOf(key).status.ok() && LayoutOf(key).right_size > 0) {
    BucketOf(key).ProjectBack();
    BucketKey right = Below(key);
    ++right.bucket;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      exchange_->Contribute(right, ranks_[i], BytesOf(BucketOf(key).right(i)));
    }
  }
  OnEnd(key, status);
}

void LowRankExchange::OnEnd(const BucketKey& key, const absl::Status& status) {
  Transfer& transfer = TransferOf(key);
  if (transfer.status.ok()) transfer.status = status;
  if (--transfer.under_way == 0) End(key);
}

void LowRankExchange::Drain() {
  BlockingCounter drained(1);
  Post([&drained] { drained.Done(absl::OkStatus()); });
  drained.Wait().IgnoreError();
}

// The last task of a step renews the basis, after the step's last bucket was done.
std::vector<KeptValues> LowRankExchange::Kept(LayoutId) {
  Drain();
  std::vector<KeptValues> kept;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) AddKept(bucket, &kept);
  return kept;
}

void LowRankExchange::AddKept(size_t bucket, std::vector<KeptValues>* kept) {
  const Bucket number(static_cast<int>(bucket));
  const std::vector<absl::Span<float>> state = buckets_[bucket].state();
  for (const LowRankMatrix& matrix : plan_.buckets()[bucket].matrices) {
    kept->push_back({"basis",
                     absl::nullopt,
                     number,
                     matrix.first,
                     {static_cast<int64_t>(matrix.rank), static_cast<int64_t>(matrix.columns)},
                     state.front().subspan(matrix.right, matrix.rank * matrix.columns)});
    for (size_t i = 0; i < ranks_.size(); ++i) {
      kept->push_back({"error",
                       ranks_[i],
                       number,
                       matrix.first,
                       {},
                       state[i + 1].subspan(matrix.residual, matrix.rows * matrix.columns)});
    }
  }
}

TransferTotals LowRankExchange::totals() const {
  TransferTotals totals = exchange_->totals();
  MutexLock lock(&mutex_);
  totals.compressed += compressed_;
  return totals;
}

void LowRankExchange::Count(const CompressionTotals& more) {
  MutexLock lock(&mutex_);
  compressed_ += more;
}

void LowRankExchange::CountLeftOut(const BucketKey& key) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    Count({0, 0, 0, SquareOf(BucketOf(key).residual(rank))});
  }
}

// Computes the next step's basis while other buckets go on.
void LowRankExchange::End(const BucketKey& key) {
  Transfer transfer = std::exchange(TransferOf(key), Transfer());
  if (transfer.status.ok()) {
    const LowRankLayout& layout = LayoutOf(key);
    Count({transfer.result.size(), (layout.left_size + layout.right_size) * sizeof(float)});
    if (IsResidualMeasured(key.step)) CountLeftOut(key);
    BucketOf(key).Reconstruct(
        {reinterpret_cast<float*>(transfer.result.data()), transfer.result.size() / sizeof(float)});
  }
  transfer.done(transfer.status);
  BucketOf(key).Renew(transfer.step);
}

}  // namespace gradwire
