#ifndef GRADWIRE_TESTS_SIMULATE_SETUP_H_
#define GRADWIRE_TESTS_SIMULATE_SETUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gradwire::simulate {

enum class FaultKind {
  kCrash,             // of the worker, as by SIGKILL
  kStop,              // of the worker, as by SIGTERM: it says so
  kPause,             // of the worker, as by SIGSTOP, and SIGCONT after `duration`
  kSessionBreaks,     // the worker's stream with the coordinator
  kSilentUp,          // what the worker tells the coordinator is held for `duration`
  kSilentDown,        // what it is told
  kDataBreaks,        // a worker's streams with whoever sums at `peer`
  kDataSilent,        // what goes on them is held for `duration`
  kSlow,              // all that the worker says takes up to `duration` longer
  kCoordinatorPause,  // for `duration`
  kHang,              // of the worker's trainer, for good: its heartbeats go on
};

// What a fault waits for.
enum class Moment {
  kTime,         // nothing but its delay
  kContribute,   // the worker hands in a bucket
  kBucketTaken,  // it takes a mean
  kReady,        // it has all means of a step
  kSealed,       // the coordinator seals a step
  kSealedHeard,  // the worker hears of that
  kViewMade,     // the coordinator makes a view, the first not counted
  kViewHeard,    // the worker hears of it
  kRewound,      // it has undone what was not sealed
};

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  int worker = 0;
  int peer = 0;
  absl::Duration duration;
  Moment moment = Moment::kTime;
  int count = 1;         // how often it has to come first
  absl::Duration delay;  // after that
};

// How long others' part of a step may take, unless a trainer hangs, and how long gRPC's keepalive
// takes at most to see that a connection is dead.
inline constexpr absl::Duration kStepTimeout = absl::Seconds(600);
inline constexpr absl::Duration kKeepalive = absl::Seconds(10);
inline constexpr int64_t kMostSteps = 6;

// What one simulation is of. All of it is drawn from the seed.
struct Setup {
  uint64_t seed = 0;
  int workers = 2;
  int world_size = 2;
  bool sharded = true;  // workers sum; else the coordinator
  std::string sync = "ddp";
  std::string optimizer = "sgd";
  bool wide = false;  // so many parameters that the fold turns
  double bucket_cap_bytes = 0;
  uint64_t chunk_bytes = 64;
  int64_t steps = 4;
  int connections = 1;
  bool duplicates = false;    // chunks come twice now and then
  int64_t compare_every = 0;  // steps after which replicas are compared
  absl::Duration min_lease = absl::Seconds(1);
  absl::Duration lease = absl::Seconds(10);
  absl::Duration heartbeat = absl::Milliseconds(250);
  absl::Duration step_timeout = kStepTimeout;
  // The run needs all its workers, and waits for those that fall silent: all come back.
  bool waits = false;
  std::vector<Fault> faults;
};

// Whether a trainer hangs.
bool Hangs(const Setup& setup);
// The longest any worker may wait for one thing.
absl::Duration WaitBound(const Setup& setup);

Setup DrawSetup(uint64_t seed);
// Of the same ranks and model, with two workers, all steps that any setup has, and no fault.
Setup FaultlessSetup(const Setup& setup);

std::string Describe(const Setup& setup);
std::string Describe(const Fault& fault);

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_SETUP_H_
