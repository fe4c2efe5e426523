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

// How a process reaches a run, and where others reach it.
struct RunEndpointOptions {
  std::string coordinator;  // "host:port"
  std::string listen;       // "host:port"; empty: see ListenAddressOf
  std::string advertise;    // host that others use; empty: see AdvertisedAddress
  absl::Duration connect_timeout = absl::Seconds(30);  // until the coordinator answers
  SecurityOptions security = {};
};

// What a process that takes part in a run has, whatever its part is: the server that others
// call, and the session with the coordinator.
//
//   Create ─► Serve ─► Open ─► Join or Offer ─► session() … ─► CloseSession
//
// One thread calls; Stop, address and joined may be called from any.
class RunEndpoint {
 public:
  // Errors: those of Security::Read.
  static absl::StatusOr<std::unique_ptr<RunEndpoint>> Create(const RunEndpointOptions& options);
  // As CloseSession; then the server ends.
  ~RunEndpoint();
  RunEndpoint(const RunEndpoint&) = delete;
  RunEndpoint& operator=(const RunEndpoint&) = delete;

  const RunEndpointOptions& options() const { return options_; }
  const Security& security() const { return security_; }

  // Serves others. The services outlive this object. Errors: those of ListenAddressOf,
  // StartGrpcServer and AdvertisedAddress.
  absl::Status Serve(const std::vector<grpc::Service*>& services);
  // After Serve. "host:port": where the server is bound, and where others reach it.
  const std::string& bound() const { return server_.address; }
  const std::string& address() const { return address_; }

  // Connects with the coordinator; see Session::Open. `stopped` and `work` as in SessionOptions.
  absl::Status Open(std::function<bool()> stopped, Session::OnAbort on_abort,
                    Session::Listener listener = {},
                    std::function<absl::optional<v1::Work>()> work = nullptr);

  // Enter the run as a worker or as an aggregator, and wait for the view. `hello` gets the address
  // and what is to be said of this process: its id, its host, its cores. The server then takes as
  // many calls as the view's workers make. Errors: those of Session::Join.
  absl::StatusOr<View> Join(v1::Hello hello);
  absl::StatusOr<View> Offer(Session::OnLayout on_layout);
  // Whether a view came.
  bool joined() const;

  // After Open.
  Session& session() { return *session_; }

  // Goes early. A member leaves with `reason`, which the coordinator tells the others; who
  // still waits for a view ends its wait with Cancelled.
  void Stop(absl::string_view reason);

  // Ends the session; none of its callbacks runs any more. session() is gone.
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
