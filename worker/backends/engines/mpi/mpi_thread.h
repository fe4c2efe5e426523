#ifndef GRADWIRE_WORKER_BACKENDS_ENGINES_MPI_MPI_THREAD_H_
#define GRADWIRE_WORKER_BACKENDS_ENGINES_MPI_MPI_THREAD_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"

namespace gradwire {

// Memory that MPI reads and writes.
struct MpiMemory {
  explicit MpiMemory(size_t size_bytes) : size(size_bytes), bytes(new uint8_t[size_bytes]) {}

  const size_t size;
  const std::unique_ptr<uint8_t[]> bytes;
};

// A collective, from MpiThread::Add to its done.
struct MpiOperation {
  size_t bytes = 0;  // of memory that it needs
  // Copies the input to `memory` and begins; returns MPI's error code.
  std::function<int(uint8_t* memory, MPI_Comm group, MPI_Request* request)> begin;
  std::function<void(const uint8_t* memory)> take;  // copies the result to the caller
  std::function<void(absl::Status)> done;           // once, on the thread; no lock is held

  // Used by the thread alone:
  std::unique_ptr<MpiMemory> memory = nullptr;
  MPI_Request request = MPI_REQUEST_NULL;
};

// All calls of MPI, on one thread (MPI_THREAD_FUNNELED).
//
//   Start: MPI_Init ─► Add … ─► Finish ─► End: MPI_Finalize
//                        │                 ▲
//                        └─ Abort ─► End ──┘ only after Finish, because it waits for all ranks
//
// MPI cannot cancel a collective, so operations work on memory that stays when they are aborted.
// MPI has no deadlines either, so the thread may be stuck in MPI_Init or MPI_Finalize while another
// rank is; End then leaves it behind. Therefore the thread shares this object.
class MpiThread : public std::enable_shared_from_this<MpiThread> {
 public:
  // `groups`: number of communicators, on which operations take turns. Each works on two at a time.
  explicit MpiThread(int groups) : groups_(groups) {}

  // Starts MPI. FailedPrecondition if this process has used MPI before, or MPI has another rank or
  // world size. Unavailable after Abort. Call it once.
  absl::Status Start(int rank, int world_size);
  // Begins an operation after those added before; all ranks add them in the same order.
  void Add(MpiOperation operation);
  // Waits until all ranks call this. DeadlineExceeded if they do not in time, Unavailable after
  // Abort.
  absl::Status Finish(absl::Time deadline);
  // Ends operations, now and later, with Unavailable. From any thread.
  void Abort();
  // Ends the thread, and MPI too if Finish was successful. Waits a few seconds at most.
  void End();

 private:
  using Operation = std::unique_ptr<MpiOperation>;

  void Run(int rank, int world_size);
  absl::Status StartMpi(int rank, int world_size) const;
  absl::Status MakeCommunicators();
  // Waits for an operation, and begins those that have their turn. Returns false at the end.
  bool BeginAdded();
  void Begin(Operation operation);
  // Returns whether an operation ended.
  bool TestAll();
  void EndOperation(Operation operation, int error);
  // Ends all operations. Memory that MPI may still write stays for ever.
  void EndAborted();
  std::unique_ptr<MpiMemory> MemoryOf(size_t bytes);

  const int groups_;
  std::thread thread_;

  // Used by the thread alone:
  std::vector<MPI_Comm> communicators_;
  size_t begun_ = 0;  // operations
  std::vector<Operation> under_way_;
  std::vector<std::unique_ptr<MpiMemory>> idle_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Operation> added_ ABSL_GUARDED_BY(mutex_);
  absl::optional<absl::Status> started_ ABSL_GUARDED_BY(mutex_);
  absl::optional<absl::Status> finished_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the thread
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_ENGINES_MPI_MPI_THREAD_H_
