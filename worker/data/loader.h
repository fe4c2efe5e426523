#ifndef GRADWIRE_WORKER_DATA_LOADER_H_
#define GRADWIRE_WORKER_DATA_LOADER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "worker/data/batch.h"

namespace gradwire {

struct LoaderOptions {
  Step first;                           // step of the first batch
  int64_t steps = 0;                    // in all
  int64_t run_ahead = 4;                // batches that may wait in the queue
  std::vector<Rank> ranks = {Rank(0)};  // for which there is a batch in each step
};

// Makes the batches of consecutive steps, for each rank of the worker in turn, on a thread
// of its own, ahead of the trainer, so that loading is off the critical path:
//
//   make(step, rank) ──> queue of at most run_ahead ──> Next()
//       own thread                                      trainer's thread
//
// One thread calls Next(); Stop() may be called from any thread at any time.
class Loader {
 public:
  // Makes one rank's batch of a step: called for each in turn, on the loader's
  // thread, with no lock held. It must not use torch's thread pool, which would
  // take cores from training. After its first error it is not called again.
  using MakeBatch = std::function<absl::StatusOr<Batch>(Step, Rank)>;

  // Starts the thread.
  //   InvalidArgument  steps below 0, run_ahead below 1, or no ranks
  static absl::StatusOr<std::unique_ptr<Loader>> Create(MakeBatch make,
                                                        const LoaderOptions& options);
  // Stops.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; waits until it is made. Errors are given again by
  // every later call:
  //   OutOfRange  all batches have been taken
  //   Cancelled   Stop() was called
  //   Internal    `make` threw (out of memory, say)
  //   or the error of `make`, after the batches made before it
  absl::StatusOr<Batch> Next();

  // Drops the batches that wait, wakes Next(), and returns when the thread has
  // ended, which is after the batch that it is making. Idempotent.
  void Stop();

 private:
  Loader(MakeBatch make, const LoaderOptions& options);
  void Run();
  bool Push(Step step, Rank rank);
  bool WaitForRoom();
  absl::StatusOr<Batch> Guarded(Step step, Rank rank) const;

  const MakeBatch make_;
  const LoaderOptions options_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Batch> queue_ ABSL_GUARDED_BY(mutex_);
  // What Next() gives when the queue is empty; OK while batches are to come.
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex join_mutex_;  // held before mutex_, by Stop() alone
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_LOADER_H_
