#include "worker/data/loader.h"

#include <exception>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(MakeBatch make,
                                                       const LoaderOptions& options) {
  if (options.steps < 0 || options.run_ahead < 1 || options.ranks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "loader of ", options.steps, " steps of ", options.ranks.size(), " ranks running ",
        options.run_ahead, " ahead, expected 0 or more, 1 or more, and 1 or more"));
  }
  return absl::WrapUnique(new Loader(std::move(make), options));
}

Loader::Loader(MakeBatch make, const LoaderOptions& options)
    : make_(std::move(make)), options_(options), thread_([this] { Run(); }) {}

Loader::~Loader() { Stop(); }

absl::StatusOr<Batch> Loader::Next() {
  MutexLock lock(&mutex_);
  while (queue_.empty() && end_.ok()) changed_.Wait(&mutex_);
  if (queue_.empty()) return end_;
  Batch batch = std::move(queue_.front());
  queue_.pop_front();
  changed_.NotifyAll();
  return batch;
}

void Loader::Stop() {
  MutexLock join_lock(&join_mutex_);
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    queue_.clear();
    end_ = absl::CancelledError("the loader was stopped");
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Loader::Run() {
  for (int64_t i = 0; i < options_.steps; ++i) {
    for (const Rank rank : options_.ranks) {
      if (!Push(Step(options_.first.value() + static_cast<uint64_t>(i)), rank)) return;
    }
  }
  MutexLock lock(&mutex_);
  if (stopped_) return;
  end_ = absl::OutOfRangeError(absl::StrCat("all batches of ", options_.steps, " steps are taken"));
  changed_.NotifyAll();
}

// Whether there is to be a next batch.
bool Loader::Push(Step step, Rank rank) {
  if (!WaitForRoom()) return false;
  absl::StatusOr<Batch> batch = Guarded(step, rank);
  MutexLock lock(&mutex_);
  if (stopped_) return false;
  changed_.NotifyAll();
  if (batch.ok()) {
    queue_.push_back(*std::move(batch));
  } else {
    end_ = batch.status();
  }
  return end_.ok();
}

bool Loader::WaitForRoom() {
  MutexLock lock(&mutex_);
  while (!stopped_ && static_cast<int64_t>(queue_.size()) >= options_.run_ahead) {
    changed_.Wait(&mutex_);
  }
  return !stopped_;
}

absl::StatusOr<Batch> Loader::Guarded(Step step, Rank rank) const {
  try {
    return make_(step, rank);
  } catch (const std::exception& error) {  // torch's and the allocator's; none may leave a thread
    return absl::InternalError(absl::StrCat("making the batch of step ", step.value(), ", rank ",
                                            rank.value(), ": ", error.what()));
  }
}

}  // namespace gradwire
