#include "worker/backends/engines/mpi/mpi_thread.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

// Operations of each communicator, as many as those of a group of Gloo's.
constexpr size_t kAtATime = 2;
// MPI makes progress only when it is asked. The thread asks again at once while something happens,
// and then lets the computation have the processor.
constexpr int kEagerTests = 200;
constexpr std::chrono::microseconds kPause(50);
// Longer than MPI_Finalize takes if all ranks are there.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

absl::Status Aborted() { return absl::UnavailableError("aborted"); }

std::string MpiText(int error) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) return absl::StrCat("error ", error);
  return std::string(text, length);
}

}  // namespace

absl::Status MpiThread::Start(int rank, int world_size) {
  thread_ =
      std::thread([self = shared_from_this(), rank, world_size] { self->Run(rank, world_size); });
  MutexLock lock(&mutex_);
  while (!started_.has_value() && !aborted_) changed_.Wait(&mutex_);
  return started_.value_or(Aborted());
}

void MpiThread::Add(MpiOperation operation) {
  auto added = std::make_unique<MpiOperation>(std::move(operation));
  {
    MutexLock lock(&mutex_);
    if (!aborted_ && !ended_) added_.push_back(std::move(added));
    changed_.NotifyAll();
  }
  if (added != nullptr) added->done(Aborted());
}

absl::Status MpiThread::Finish(absl::Time deadline) {
  MpiOperation barrier;
  barrier.begin = [](uint8_t*, MPI_Comm group, MPI_Request* request) {
    return MPI_Ibarrier(group, request);
  };
  barrier.take = [](const uint8_t*) {};
  barrier.done = [self = shared_from_this()](const absl::Status& status) {
    MutexLock lock(&self->mutex_);
    self->finished_ = status;
    self->changed_.NotifyAll();
  };
  Add(std::move(barrier));
  MutexLock lock(&mutex_);
  while (!finished_.has_value()) {
    if (changed_.WaitWithDeadline(&mutex_, deadline) && !finished_.has_value()) {
      return absl::DeadlineExceededError("not all ranks have finished by the deadline");
    }
  }
  return *finished_;
}

void MpiThread::Abort() {
  MutexLock lock(&mutex_);
  aborted_ = true;
  changed_.NotifyAll();
}

void MpiThread::End() {
  Abort();
  if (!thread_.joinable()) return;
  const absl::Time deadline = SteadyNow() + kEndTimeout;
  bool ended = false;
  {
    MutexLock lock(&mutex_);
    while (!ended_ && SteadyNow() < deadline) changed_.WaitWithDeadline(&mutex_, deadline);
    ended = ended_;
  }
  // A thread that is stuck in MPI ends with the process.
  ended ? thread_.join() : thread_.detach();
}

void MpiThread::Run(int rank, int world_size) {
  absl::Status started = StartMpi(rank, world_size);
  if (started.ok()) started = MakeCommunicators();
  {
    MutexLock lock(&mutex_);
    started_ = started;
    changed_.NotifyAll();
  }
  int tests = 0;
  while (started.ok() && BeginAdded()) {
    tests = TestAll() ? 0 : tests + 1;
    tests < kEagerTests ? std::this_thread::yield() : std::this_thread::sleep_for(kPause);
  }
  EndAborted();
  bool all_finished;
  {
    MutexLock lock(&mutex_);
    all_finished = finished_.has_value() && finished_->ok();
  }
  if (all_finished) MPI_Finalize();
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

absl::Status MpiThread::StartMpi(int rank, int world_size) const {
  int used = 0;
  MPI_Initialized(&used);
  if (used != 0) {
    return absl::FailedPreconditionError(
        "this process has used MPI before, and MPI can start only once");
  }
  int level = MPI_THREAD_SINGLE;
  const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  if (error != MPI_SUCCESS) return absl::UnavailableError(MpiText(error));
  if (level < MPI_THREAD_FUNNELED) {
    return absl::FailedPreconditionError(
        "this MPI supports no threads, expected MPI_THREAD_FUNNELED");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int mpi_rank = 0;
  int mpi_size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
  if (mpi_rank == rank && mpi_size == world_size) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "got rank ", mpi_rank, " of ", mpi_size, " from MPI, expected rank ", rank, " of ",
      world_size, ", as in the run; start all workers with one mpirun, without --rank"));
}

absl::Status MpiThread::MakeCommunicators() {
  for (int group = 0; group < groups_; ++group) {
    MPI_Comm communicator = MPI_COMM_NULL;
    const int error = MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    if (error != MPI_SUCCESS) return absl::UnavailableError(MpiText(error));
    communicators_.push_back(communicator);
  }
  return absl::OkStatus();
}

bool MpiThread::BeginAdded() {
  while (true) {
    Operation next;
    {
      MutexLock lock(&mutex_);
      while (!aborted_ && added_.empty() && under_way_.empty()) changed_.Wait(&mutex_);
      if (aborted_) return false;
      if (added_.empty() || under_way_.size() >= kAtATime * communicators_.size()) return true;
      next = std::move(added_.front());
      added_.pop_front();
    }
    Begin(std::move(next));
  }
}

void MpiThread::Begin(Operation operation) {
  operation->memory = MemoryOf(operation->bytes);
  const MPI_Comm group = communicators_[begun_++ % communicators_.size()];
  const int error = operation->begin(operation->memory->bytes.get(), group, &operation->request);
  if (error != MPI_SUCCESS) return EndOperation(std::move(operation), error);
  under_way_.push_back(std::move(operation));
}

bool MpiThread::TestAll() {
  bool any = false;
  for (size_t i = 0; i < under_way_.size();) {
    int done = 0;
    const int error = MPI_Test(&under_way_[i]->request, &done, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS && done == 0) {
      ++i;
      continue;
    }
    Operation ended = std::move(under_way_[i]);
    under_way_.erase(under_way_.begin() + i);
    EndOperation(std::move(ended), error);
    any = true;
  }
  return any;
}

void MpiThread::EndOperation(Operation operation, int error) {
  if (error != MPI_SUCCESS) {
    operation->memory.release();  // MPI may still use it
    return operation->done(absl::UnavailableError(MpiText(error)));
  }
  operation->take(operation->memory->bytes.get());
  idle_.push_back(std::move(operation->memory));
  operation->done(absl::OkStatus());
}

void MpiThread::EndAborted() {
  std::deque<Operation> rest;
  {
    MutexLock lock(&mutex_);
    aborted_ = true;
    rest.swap(added_);
  }
  for (Operation& operation : under_way_) {
    operation->memory.release();  // MPI may still use it
    rest.push_front(std::move(operation));
  }
  under_way_.clear();
  for (const Operation& operation : rest) operation->done(Aborted());
}

std::unique_ptr<MpiMemory> MpiThread::MemoryOf(size_t bytes) {
  const auto found = std::find_if(idle_.begin(), idle_.end(),
                                  [bytes](const auto& memory) { return memory->size == bytes; });
  if (found == idle_.end()) return std::make_unique<MpiMemory>(bytes);
  std::unique_ptr<MpiMemory> memory = std::move(*found);
  idle_.erase(found);
  return memory;
}

}  // namespace gradwire
