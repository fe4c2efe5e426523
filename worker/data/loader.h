#ifndef GRADWIRE_WORKER_DATA_LOADER_H_
#define GRADWIRE_WORKER_DATA_LOADER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "worker/data/batches.h"

namespace gradwire {

struct LoaderOptions {
  Step first;                           // step of the first batch
  int64_t steps = 0;                    // number of steps
  int64_t run_ahead = 4;                // batches that may be prepared or wait at once
  std::vector<Rank> ranks = {Rank(0)};  // each has a batch in each step
  int threads = 1;                      // threads that prepare batches
};

// Prepares the batches of consecutive steps, for each rank of the worker in turn, on its own
// threads ahead of the trainer, so that loading is off the critical path:
//
//   make(step, rank) ──> at most run_ahead, by number ──> Next()
//      own threads                                        trainer's thread
//
// Batches begin in order, end in any order, and are returned in order.
//
// One thread calls Next(); Stop() may be called from any thread at any time.
class Loader {
 public:
  // Makes one rank's batch of a step. Called once for each, on the loader's threads, with no lock
  // held, several at a time. It must not use torch's thread pool, which would take cores from
  // training. Not called again after its first error.
  using MakeBatch = std::function<absl::StatusOr<Batch>(Step, Rank)>;

  // Starts the threads.
  //   InvalidArgument  steps below 0, run_ahead or threads below 1, or no ranks
  static absl::StatusOr<std::unique_ptr<Loader>> Create(MakeBatch make,
                                                        const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch; waits until it is made. Every later call returns the same error:
  //   OutOfRange  all batches were taken
  //   Cancelled   Stop() was called
  //   Internal    `make` threw (out of memory, say)
  //   or the error of `make`, after the batches made before it
  absl::StatusOr<Batch> Next();

  // Drops waiting batches, wakes Next(), and returns when the threads have ended, after their
  // current batches. Idempotent.
  void Stop();

 private:
  Loader(MakeBatch make, const LoaderOptions& options);
  void Run();
  absl::optional<int64_t> Begin();
  absl::StatusOr<Batch> Guarded(int64_t number) const;

  const MakeBatch make_;
  const LoaderOptions options_;
  const int64_t total_;  // number of batches, which count from 0

  Mutex mutex_;
  CondVar changed_;
  int64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;                              // total_ after an error
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;                               // next batch of Next()
  std::map<int64_t, absl::StatusOr<Batch>> made_ ABSL_GUARDED_BY(mutex_);  // by number
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex join_mutex_;  // held before mutex_, only by Stop()
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(join_mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_LOADER_H_
