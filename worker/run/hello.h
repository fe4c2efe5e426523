#ifndef GRADWIRE_WORKER_RUN_HELLO_H_
#define GRADWIRE_WORKER_RUN_HELLO_H_

#include <cstdint>

#include "gradwire/v1/membership.pb.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// What a worker says of itself when it joins: the ranks that it wants, its host, and the
// settings that have to be equal on all workers. `training_samples`: in its data set.
// Addresses are left to the caller.
v1::Hello MakeHello(const WorkerOptions& options, int64_t training_samples);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_HELLO_H_
