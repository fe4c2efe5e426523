#ifndef GRADWIRE_DDP_H_
#define GRADWIRE_DDP_H_

// Includes all headers of Gradwire's library. docs/library.md compares it with Python's API.
#include <gradwire/distributed_data_parallel.h>
#include <gradwire/distributed_sampler.h>
#include <gradwire/error.h>
#include <gradwire/process_group.h>
#include <gradwire/version.h>

#endif  // GRADWIRE_DDP_H_
