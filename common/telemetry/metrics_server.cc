#include "common/telemetry/metrics_server.h"

#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/status_util.h"
#include "common/rpc/reach.h"
#include "common/telemetry/http_server.h"

namespace gradwire {
namespace {

absl::StatusOr<HostPort> ParseAddress(absl::string_view address) {
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat("metrics address: got '", address,
                                                 "', expected HOST:PORT with a port from 0 to "
                                                 "65535, such as 127.0.0.1:9400"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    absl::string_view address, std::shared_ptr<prometheus::Registry> registry, Ready ready,
    Pages pages, std::vector<std::string> names, const PageGuard& guard) {
  const absl::StatusOr<HostPort> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  const absl::Status reach = CheckReach("--metrics", address, guard.security);
  if (!reach.ok()) return reach;
  auto server = absl::WrapUnique(new MetricsServer(std::move(registry), std::move(ready),
                                                   std::move(pages), std::move(names), guard));
  const absl::Status listening = server->Listen(*parsed);
  if (!listening.ok()) return listening;
  return server;
}

MetricsServer::MetricsServer(std::shared_ptr<prometheus::Registry> registry, Ready ready,
                             Pages pages, std::vector<std::string> names, const PageGuard& guard)
    : registry_(std::move(registry)),
      ready_(std::move(ready)),
      pages_(std::move(pages)),
      names_(std::move(names)),
      guard_(guard) {}

absl::Status MetricsServer::Listen(const HostPort& address) {
  std::unique_ptr<PageTls> tls;
  if (EncryptsPages(guard_.security)) {
    absl::StatusOr<std::unique_ptr<PageTls>> read = PageTls::Read(guard_.security);
    if (!read.ok()) return read.status();
    tls = *std::move(read);
  }
  absl::StatusOr<Listening> listening = ListenAt(address);
  if (!listening.ok()) {
    return Annotate(listening.status(),
                    absl::StrCat("cannot serve metrics on ", ToString(address)));
  }
  address_ = ToString(listening->address);
  names_.push_back(address.host);
  server_ = std::make_unique<HttpServer>(
      *std::move(listening),
      [this](absl::string_view method, const PageRequest& request) {
        return Answer(method, request);
      },
      std::move(tls));
  return absl::OkStatus();
}

std::string MetricsServer::url() const {
  return absl::StrCat(EncryptsPages(guard_.security) ? "https://" : "http://", address_);
}

Page MetricsServer::Answer(absl::string_view method, const PageRequest& request) const {
  if (!IsOurs(request.host, names_)) {
    return {421, kPlainText,
            absl::StrCat(request.host, " is not a name of this server; use its IP address\n")};
  }
  if (method != "GET" && method != "HEAD") {
    return {405, kPlainText, absl::StrCat(method, " is not served here; use GET\n")};
  }
  const bool tells_all = request.path == "/healthz" || request.path == "/readyz";
  const std::string& token = guard_.token;
  if (!token.empty() && !tells_all && !ShowsToken(request.authorization, token)) {
    return {401, kPlainText, "expected the run's token, as a password or a bearer token\n"};
  }
  return PageAt(request);
}

Page MetricsServer::PageAt(const PageRequest& request) const {
  const absl::string_view path = request.path;
  if (pages_) {
    if (absl::optional<Page> page = pages_(request)) return *std::move(page);
  }
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8",
            prometheus::TextSerializer().Serialize(registry_->Collect())};
  }
  if (path == "/healthz") return {200, kPlainText, "alive\n"};
  if (path == "/readyz") {
    if (ready_()) return {200, kPlainText, "ready\n"};
    return {503, kPlainText, "not ready: some workers have not joined yet\n"};
  }
  return {404, kPlainText, absl::StrCat(path, " is not served; try /metrics, /healthz, /readyz\n")};
}

}  // namespace gradwire
