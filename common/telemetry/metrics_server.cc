#include "common/telemetry/metrics_server.h"

#include <httplib.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr size_t kThreads = 8;          // requests that are answered at a time
constexpr time_t kPatienceSeconds = 1;  // for the next bytes of a request

absl::StatusOr<HostPort> ParseAddress(absl::string_view address) {
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat("metrics address: got '", address,
                                                 "', expected HOST:PORT with a port from 0 to "
                                                 "65535, such as 127.0.0.1:9400"));
}

// What follows "?" in a request's target.
absl::string_view QueryOf(absl::string_view target) {
  const size_t mark = target.find('?');
  return mark == absl::string_view::npos ? "" : target.substr(mark + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    absl::string_view address, std::shared_ptr<prometheus::Registry> registry, Ready ready,
    Pages pages) {
  absl::StatusOr<HostPort> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  auto server =
      absl::WrapUnique(new MetricsServer(std::move(registry), std::move(ready), std::move(pages)));
  const absl::Status listening = server->Listen(*std::move(parsed));
  if (!listening.ok()) return listening;
  return server;
}

MetricsServer::MetricsServer(std::shared_ptr<prometheus::Registry> registry, Ready ready,
                             Pages pages)
    : registry_(std::move(registry)),
      ready_(std::move(ready)),
      pages_(std::move(pages)),
      server_(std::make_unique<httplib::Server>()) {
  server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server_->set_keep_alive_max_count(1);
  server_->set_keep_alive_timeout(kPatienceSeconds);
  server_->set_read_timeout(kPatienceSeconds);
  // The library's own would share the port with whoever else wants it.
  server_->set_socket_options([](int socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  server_->set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& to) {
    const std::string host = request.get_header_value("Host");
    Page page = Answer(request.method, {request.path, QueryOf(request.target), host});
    to.status = page.code;
    to.set_content(std::move(page.body), page.content_type);
    return httplib::Server::HandlerResponse::Handled;
  });
}

MetricsServer::~MetricsServer() {
  server_->stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status MetricsServer::Listen(HostPort address) {
  const int port = address.port == 0 ? server_->bind_to_any_port(address.host)
                   : server_->bind_to_port(address.host, address.port) ? address.port
                                                                       : -1;
  if (port < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot serve metrics on ", ToString(address), ": ", WhyNotBound(address)));
  }
  address.port = static_cast<uint16_t>(port);
  address_ = ToString(address);
  thread_ = std::thread([this] { server_->listen_after_bind(); });
  // Before that, stop() does nothing.
  while (!server_->is_running()) std::this_thread::yield();
  return absl::OkStatus();
}

Page MetricsServer::Answer(absl::string_view method, const PageRequest& request) const {
  const absl::string_view path = request.path;
  if (method != "GET" && method != "HEAD") {
    return {405, kPlainText, absl::StrCat(method, " is not served here; use GET\n")};
  }
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
    return {503, kPlainText, "not ready: not every worker is there yet\n"};
  }
  return {404, kPlainText, absl::StrCat(path, " is not served; try /metrics, /healthz, /readyz\n")};
}

}  // namespace gradwire
