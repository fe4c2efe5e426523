#ifndef GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_H_
#define GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace gradwire {

// Keys and values that all ranks of a run share, so that an engine finds its peers. Thread-safe.
// Every method may return an error of the service behind it; see rendezvous.proto.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Returns the values, in the order of `keys`, once all exist. DeadlineExceeded names the missing
  // keys.
  virtual absl::StatusOr<std::vector<std::string>> Wait(const std::vector<std::string>& keys,
                                                        absl::Time deadline) = 0;
};

// A library that has collectives and connections of its own. It is in a separate module, which is
// loaded on demand, so no other back end needs that library: libgradwire_gloo.so has c10d's
// ProcessGroupGloo (libtorch takes 0.8 s to load), libgradwire_mpi.so has OpenMPI.
//
//   Bind ─► Connect ─► Sum, Broadcast, Gather, Scatter … ─► Finish ─► destructor
//               └────────┴── Abort, from any thread ────────────────────┘
//
// Call Sum to Scatter on one thread, in the same order on all ranks. They take turns on the
// engine's groups; each group has its own connections and threads. An engine makes the whole
// process ignore SIGPIPE, because otherwise a peer's death would kill this process too.
class CollectiveEngine {
 public:
  // Runs once, on a thread of the engine or the caller, with no lock held. The engine no longer
  // uses the memory. Unavailable: a connection broke, or Abort was called.
  using Done = std::function<void(absl::Status)>;

  // Waits for operations that are under way; call Abort first to shorten that.
  virtual ~CollectiveEngine() = default;

  // Chooses the address on which to listen and from which to connect. FailedPrecondition if it is
  // not an address of this host.
  virtual absl::Status Bind(const std::string& host) = 0;
  // Connects with all peers, which find each other through `store`; it must outlive the engine.
  // Blocks until all are connected. Unavailable if that fails; the message says why.
  virtual absl::Status Connect(int rank, int world_size, KeyValueStore* store) = 0;

  // Sums the terms of all ranks. `sum` has as many values, and may be the same memory.
  virtual void Sum(absl::Span<const float> terms, absl::Span<float> sum, Done done) = 0;
  // Copies the bytes of rank `root` to all ranks, in place.
  virtual void Broadcast(absl::Span<uint8_t> bytes, int root, Done done) = 0;
  // Rank `root` gets `mine` of rank r in parts[r], of the same size; other ranks have no parts.
  virtual void Gather(absl::Span<uint8_t> mine, const std::vector<absl::Span<uint8_t>>& parts,
                      int root, Done done) = 0;
  // Rank r gets parts[r] of rank `root` in `mine`; other ranks have no parts. Parts may be the same
  // memory.
  virtual void Scatter(const std::vector<absl::Span<uint8_t>>& parts, absl::Span<uint8_t> mine,
                       int root, Done done) = 0;

  // Waits until peers no longer need this rank. Unavailable after Abort, DeadlineExceeded.
  virtual absl::Status Finish(absl::Time deadline) = 0;

  // Returns the peers whose connection is broken, if the library knows. This makes the connections
  // unusable: call it only after a failure, and then Abort.
  virtual std::vector<int> BrokenPeers() = 0;
  // Ends operations, now and later, with Unavailable. If Connect waits for the store, an error of
  // the store ends it.
  virtual void Abort() = 0;
};

}  // namespace gradwire

// The only symbol of each module: returns an engine with that many groups, at least 1. The caller
// owns it.
extern "C" gradwire::CollectiveEngine* gradwire_make_gloo_engine(int groups);
extern "C" gradwire::CollectiveEngine* gradwire_make_mpi_engine(int groups);

#endif  // GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_H_
