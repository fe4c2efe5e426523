#include "worker/data/loader.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace gradwire {

namespace {

// Returns the product, or the largest number if it overflows.
int64_t Product(int64_t steps, int64_t ranks) { return std::min(steps, INT64_MAX / ranks) * ranks; }

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(MakeBatch make,
                                                       const LoaderOptions& options) {
  if (options.steps < 0 || options.run_ahead < 1 || options.threads < 1 || options.ranks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader of ", options.steps, " steps of ", options.ranks.size(),
                     " ranks running ", options.run_ahead, " ahead on ", options.threads,
                     " threads, expected 0 or more, 1 or more, 1 or more, and 1 or more"));
  }
  return absl::WrapUnique(new Loader(std::move(make), options));
}

Loader::Loader(MakeBatch make, const LoaderOptions& options)
    : make_(std::move(make)),
      options_(options),
      total_(Product(options.steps, static_cast<int64_t>(options.ranks.size()))) {
  MutexLock lock(&join_mutex_);
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

Loader::~Loader() { Stop(); }

absl::StatusOr<Batch> Loader::Next() {
  MutexLock lock(&mutex_);
  while (!stopped_ && next_ < total_ && made_.count(next_) == 0) changed_.Wait(&mutex_);
  if (stopped_) return absl::CancelledError("the loader was stopped");
  if (next_ == total_) {
    return absl::OutOfRangeError(
        absl::StrCat("all batches of ", options_.steps, " steps are taken"));
  }
  const auto found = made_.find(next_);
  if (!found->second.ok()) return found->second.status();
  absl::StatusOr<Batch> batch = std::move(found->second);
  made_.erase(found);
  ++next_;
  changed_.NotifyAll();
  return batch;
}

void Loader::Stop() {
  MutexLock join_lock(&join_mutex_);
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    made_.clear();
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Loader::Run() {
  while (const absl::optional<int64_t> number = Begin()) {
    absl::StatusOr<Batch> batch = Guarded(*number);
    MutexLock lock(&mutex_);
    if (stopped_) return;
    if (!batch.ok()) begun_ = total_;
    made_.emplace(*number, std::move(batch));
    changed_.NotifyAll();
  }
}

// Returns the number of the next batch for this thread; none if there is none.
absl::optional<int64_t> Loader::Begin() {
  MutexLock lock(&mutex_);
  while (!stopped_ && begun_ < total_ && begun_ - next_ >= options_.run_ahead) {
    changed_.Wait(&mutex_);
  }
  if (stopped_ || begun_ == total_) return absl::nullopt;
  return begun_++;
}

absl::StatusOr<Batch> Loader::Guarded(int64_t number) const {
  const auto ranks = static_cast<int64_t>(options_.ranks.size());
  const Step step(options_.first.value() + static_cast<uint64_t>(number / ranks));
  const Rank rank = options_.ranks[static_cast<size_t>(number % ranks)];
  try {
    return make_(step, rank);
  } catch (const std::exception& error) {  // from torch or the allocator; none may leave a thread
    return absl::InternalError(absl::StrCat("making the batch of step ", step.value(), ", rank ",
                                            rank.value(), ": ", error.what()));
  }
}

}  // namespace gradwire
