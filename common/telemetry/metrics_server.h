#ifndef GRADWIRE_COMMON_TELEMETRY_METRICS_SERVER_H_
#define GRADWIRE_COMMON_TELEMETRY_METRICS_SERVER_H_

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/address.h"

namespace httplib {
class Server;
}

namespace gradwire {

// What an HTTP server is asked for.
struct PageRequest {
  absl::string_view path;   // "/sd"
  absl::string_view query;  // what follows "?"; may be empty
  absl::string_view host;   // "host:port" by which the client reached this server; may be empty
};

// What it answers.
struct Page {
  int code = 200;
  std::string content_type;
  std::string body;
};

// Answers plain HTTP, GET and HEAD, on threads of its own:
//
//   /metrics   200, the registry in Prometheus' text format
//   /healthz   200 as long as the process can answer
//   /readyz    200 or 503, as `ready` says
//   else       404; other methods 405
//
// Where `pages` has an answer, that one is given instead.
//
// Thread-safe. The destructor joins the threads, and waits a second at most for a
// client that says nothing.
class MetricsServer {
 public:
  // Called on the server's threads, several at a time; must not block.
  using Ready = std::function<bool()>;
  // Likewise. None: there is no such page.
  using Pages = std::function<absl::optional<Page>(const PageRequest&)>;

  // Listens on `address`, "host:port"; port 0 picks a free one. Errors:
  //   InvalidArgument     `address` is not of that form
  //   FailedPrecondition  the address cannot be bound; says why
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      absl::string_view address, std::shared_ptr<prometheus::Registry> registry, Ready ready,
      Pages pages = nullptr);

  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // "host:port" with the port that was bound.
  const std::string& address() const { return address_; }

 private:
  MetricsServer(std::shared_ptr<prometheus::Registry> registry, Ready ready, Pages pages);
  absl::Status Listen(HostPort address);
  Page Answer(absl::string_view method, const PageRequest& request) const;

  const std::shared_ptr<prometheus::Registry> registry_;
  const Ready ready_;
  const Pages pages_;  // may be empty
  const std::unique_ptr<httplib::Server> server_;
  std::string address_;
  std::thread thread_;  // accepts connections
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_METRICS_SERVER_H_
