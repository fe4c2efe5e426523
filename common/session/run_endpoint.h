#ifndef GRADWIRE_COMMON_SESSION_RUN_ENDPOINT_H_
#define GRADWIRE_COMMON_SESSION_RUN_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/options/security_options.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/security.h"
#include "common/session/session.h"
#include "common/wire/view.h"

namespace gradwire {

// Addresses of a run and of this process.
struct RunEndpointOptions {
  std::string coordinator;  // "host:port"
  std::string listen;       // "host:port"; empty: see ListenAddressOf
  std::string advertise;    // host for others; empty: see AdvertisedAddress
  absl::Duration connect_timeout = absl::Seconds(30);  // longest wait for the coordinator
  SecurityOptions security = {};
  bool shares_memory = true;  // with other workers of this host
};

// A process's connection with a run, in any role: the server that others call, and the session with
// the coordinator.
//
//   Create ─► Serve ─► Open ─► Join or Offer ─► session() … ─► CloseSession
//
// For one thread; Stop, address and joined may be called from any.
class RunEndpoint {
 public:
  // Errors: as for Security::Read.
  static absl::StatusOr<std::unique_ptr<RunEndpoint>> Create(const RunEndpointOptions& options);
  // Calls CloseSession, then shuts the server down.
  ~RunEndpoint();
  RunEndpoint(const RunEndpoint&) = delete;
  RunEndpoint& operator=(const RunEndpoint&) = delete;

  const RunEndpointOptions& options() const { return options_; }
  const Security& security() const { return security_; }

  // Serves other processes. The services must outlive this object. Errors are those of
  // ListenAddressOf, StartGrpcServer and AdvertisedAddress.
  absl::Status Serve(const std::vector<grpc::Service*>& services);
  // After Serve. "host:port" to which the server is bound, and by which others reach it.
  const std::string& bound() const { return server_.address; }
  const std::string& address() const { return address_; }

  // Connects to the coordinator; see Session::Open. `stopped` and `work` as in SessionOptions.
  absl::Status Open(std::function<bool()> stopped, Session::OnAbort on_abort,
                    Session::Listener listener = {},
                    std::function<absl::optional<v1::Work>()> work = nullptr);

  // Join the run as a worker or as an aggregator, and wait for the view. Join adds the address,
  // process id, host and cores to `hello`. The server then allows as many calls as the view's
  // workers need. Errors: as for Session::Join.
  absl::StatusOr<View> Join(v1::Hello hello);
  absl::StatusOr<View> Offer(Session::OnLayout on_layout);
  // Returns whether a view has arrived.
  bool joined() const;

  // After Open.
  Session& session() { return *session_; }

  // Leaves early. A member leaves with `reason`, which the coordinator sends to the others. A
  // process that still waits for a view ends its wait with Cancelled.
  void Stop(absl::string_view reason);

  // Ends the session and waits for its callbacks. session() is then invalid.
  void CloseSession();

 private:
  RunEndpoint(const RunEndpointOptions& options, Security security);
  absl::StatusOr<View> Entered(absl::StatusOr<View> view);

  const RunEndpointOptions options_;
  const Security security_;
  GrpcServer server_;
  std::string address_;

  std::unique_ptr<Session> session_;
  mutable Mutex mutex_;
  Session* shown_session_ ABSL_GUARDED_BY(mutex_) = nullptr;  // for Stop
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_RUN_ENDPOINT_H_
