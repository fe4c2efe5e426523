#ifndef GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_H_
#define GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace gradwire {

// Keys and values that all ranks of a run share: what an engine finds its peers
// with. Thread-safe. Every method may fail with the error of the service
// behind it; see rendezvous.proto.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // The values, in the order of `keys`, once all are there. DeadlineExceeded
  // names the keys that are missing.
  virtual absl::StatusOr<std::vector<std::string>> Wait(const std::vector<std::string>& keys,
                                                        absl::Time deadline) = 0;
  // Whether all are there.
  virtual absl::StatusOr<bool> Check(const std::vector<std::string>& keys) = 0;
  // Adds to a counter, which starts at 0; returns the sum.
  virtual absl::StatusOr<int64_t> Add(const std::string& key, int64_t delta) = 0;
  // Whether the key was there.
  virtual absl::StatusOr<bool> Delete(const std::string& key) = 0;
  virtual absl::StatusOr<int64_t> Count() = 0;
};

// c10d's ProcessGroupGloo, with nothing of torch in the interface. It lives in a
// module of its own (libgradwire_gloo.so), which is loaded when it is asked for:
// libtorch takes 0.8 s to load, and no other back end needs it.
//
//   Bind ─► Connect ─► Sum, Broadcast, Gather, Scatter … ─► destructor
//               └────────┴── Abort, from any thread
//
// Sum to Scatter are called by one thread, in the same order on all ranks. They take turns on the
// engine's groups, each of which has connections and threads of its own.
// Making one has the whole process ignore SIGPIPE: without that a peer's death
// would kill this process too.
class GlooEngine {
 public:
  // Runs once, on a thread of the engine's or the caller's, with no lock held;
  // the memory is then not used any more. Unavailable: a connection broke, or Abort.
  using Done = std::function<void(absl::Status)>;

  // Waits for what is under way: call Abort before if that should be short.
  virtual ~GlooEngine() = default;

  // Chooses the address to listen on and connect from. FailedPrecondition if it
  // is not one of this host's.
  virtual absl::Status Bind(const std::string& host) = 0;
  // Connects with all peers; they find each other through `store`, which outlives the
  // engine. Blocks until all are there. Unavailable if it fails; the message says why.
  virtual absl::Status Connect(int rank, int world_size, KeyValueStore* store) = 0;

  // Sums over all ranks, in place.
  virtual void Sum(absl::Span<float> values, Done done) = 0;
  // Copies the bytes of rank `root` to all ranks, in place.
  virtual void Broadcast(absl::Span<uint8_t> bytes, int root, Done done) = 0;
  // Rank `root` gets `mine` of rank r in parts[r], which is as long; elsewhere there are no parts.
  virtual void Gather(absl::Span<uint8_t> mine, const std::vector<absl::Span<uint8_t>>& parts,
                      int root, Done done) = 0;
  // Rank r gets parts[r] of rank `root` in `mine`; elsewhere there are no parts, which may be the
  // same memory.
  virtual void Scatter(const std::vector<absl::Span<uint8_t>>& parts, absl::Span<uint8_t> mine,
                       int root, Done done) = 0;

  // The peers whose connection is broken. Spoils the connections: call it only
  // after a failure, and then Abort.
  virtual std::vector<int> BrokenPeers() = 0;
  // Ends what is under way and all that comes, with Unavailable. A Connect that
  // waits for the store is ended by an error of the store's.
  virtual void Abort() = 0;
};

}  // namespace gradwire

// The module's one symbol: an engine of so many groups, at least 1. The caller owns it.
extern "C" gradwire::GlooEngine* gradwire_make_gloo_engine(int groups);

#endif  // GRADWIRE_WORKER_BACKENDS_GLOO_ENGINE_H_
