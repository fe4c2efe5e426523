#include "common/rpc/keep_grpc.h"

#include <grpc/grpc.h>

#include <cstdlib>

namespace gradwire {
namespace {

// A connection whose calls nobody waits in is looked after so often, in milliseconds; gRPC's own
// value is 5000. After a call was cancelled, memory that it was lent is back only when what stood
// in the connection was written, or its end was noticed: those who go on without a lost worker
// wait for that.
constexpr char kBackupPollMs[] = "50";

}  // namespace

// gRPC is never shut down: when the last channel or server goes, it would wait for
// its backup poller, which may sleep up to 10 s (1.51). The end of the process does.
void KeepGrpc() {
  static const bool kept = [] {
    setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", kBackupPollMs, /*replace=*/0);
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

}  // namespace gradwire
