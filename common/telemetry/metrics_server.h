#ifndef GRADWIRE_COMMON_TELEMETRY_METRICS_SERVER_H_
#define GRADWIRE_COMMON_TELEMETRY_METRICS_SERVER_H_

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/address.h"
#include "common/options/security_options.h"
#include "common/telemetry/http_server.h"

namespace gradwire {

// Access rules for pages.
struct PageGuard {
  std::string token;  // empty: not required
  // Whether pages are encrypted (EncryptsPages), and may be public (MayBePublic).
  SecurityOptions security;
};

// Answers HTTP or HTTPS requests, GET and HEAD, on a thread of its own:
//
//   /metrics   200, the registry in Prometheus' text format
//   /healthz   200 as long as the process can answer
//   /readyz    200 or 503, as `ready` says
//   others     404; other methods 405; host names that are not ours (IsOurs) 421
//
// With a token, a request without it (ShowsToken) gets 401, except for /healthz and /readyz. With
// HTTPS each client must show a certificate (PageTls).
//
// If `pages` has an answer, it replaces these. See HttpServer. Thread-safe.
class MetricsServer {
 public:
  // Called on the server's thread; must not block.
  using Ready = std::function<bool()>;
  // The same. None: no such page exists.
  using Pages = std::function<absl::optional<Page>(const PageRequest&)>;

  // Listens on `address`, "host:port"; port 0 selects a free one. Errors:
  //   InvalidArgument     `address` is malformed
  //   FailedPrecondition  the address cannot be bound; with the reason
  // and those of CheckReach and CheckCertificates. `names`: names of this server besides the one in
  // `address` and those that IsOurs accepts.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      absl::string_view address, std::shared_ptr<prometheus::Registry> registry, Ready ready,
      Pages pages = nullptr, std::vector<std::string> names = {}, const PageGuard& guard = {});

  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // "host:port" with the bound port.
  const std::string& address() const { return address_; }
  // "https://host:port".
  std::string url() const;

 private:
  MetricsServer(std::shared_ptr<prometheus::Registry> registry, Ready ready, Pages pages,
                std::vector<std::string> names, const PageGuard& guard);
  absl::Status Listen(const HostPort& address);
  Page Answer(absl::string_view method, const PageRequest& request) const;
  // Returns the page for a valid request.
  Page PageAt(const PageRequest& request) const;

  const std::shared_ptr<prometheus::Registry> registry_;
  const Ready ready_;
  const Pages pages_;               // may be empty
  std::vector<std::string> names_;  // including the host of `address_`
  const PageGuard guard_;
  std::string address_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_METRICS_SERVER_H_
