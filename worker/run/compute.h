#ifndef GRADWIRE_WORKER_RUN_COMPUTE_H_
#define GRADWIRE_WORKER_RUN_COMPUTE_H_

namespace gradwire {

// Lets libtorch, and the BLAS library under it, compute with `threads` threads (at least 1)
// on the thread that calls, and logs which BLAS that is, with a warning for a slow one. How
// many threads share a sum decides its bits.
void UseComputeThreads(int threads);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_COMPUTE_H_
