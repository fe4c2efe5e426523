#include "common/telemetry/metrics_server.h"

#include <civetweb.h>
#include <dlfcn.h>
#include <prometheus/text_serializer.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

// Debian's civetweb gives its threads 100 KiB of stack. glibc takes the thread-local
// variables of all libraries out of that, and OpenBLAS alone has 60 KiB of them: beside
// libtorch no thread could be started. So what this program's libraries ask for is never
// less than this much.
extern "C" int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t bytes) noexcept {
  constexpr size_t kLeastBytes = 1 << 20;
  using SetStackSize = int (*)(pthread_attr_t*, size_t);
  static const auto set =
      reinterpret_cast<SetStackSize>(dlsym(RTLD_NEXT, "pthread_attr_setstacksize"));
  return set(attributes, bytes < kLeastBytes ? kLeastBytes : bytes);
}

namespace gradwire {
namespace {

// While it waits for connections, civetweb looks only every 2 s whether it shall
// stop. A connection wakes it.
constexpr std::chrono::milliseconds kKnockEvery(5);

constexpr char kPlainText[] = "text/plain; charset=utf-8";

absl::Status BadAddress(absl::string_view address) {
  return absl::InvalidArgumentError(absl::StrCat("metrics address: got '", address,
                                                 "', expected HOST:PORT with a port from 0 to "
                                                 "65535, such as 127.0.0.1:9400"));
}

absl::StatusOr<std::pair<std::string, int>> SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return BadAddress(address);
  }
  return std::make_pair(std::string(address.substr(0, colon)), port);
}

const char* Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    absl::string_view address, std::shared_ptr<prometheus::Registry> registry, Ready ready,
    Pages pages) {
  auto split = SplitAddress(address);
  if (!split.ok()) return split.status();
  auto server =
      absl::WrapUnique(new MetricsServer(std::move(registry), std::move(ready), std::move(pages)));
  const absl::Status listening = server->Listen(split->first, split->second);
  if (!listening.ok()) return listening;
  return server;
}

MetricsServer::MetricsServer(std::shared_ptr<prometheus::Registry> registry, Ready ready,
                             Pages pages)
    : registry_(std::move(registry)), ready_(std::move(ready)), pages_(std::move(pages)) {}

MetricsServer::~MetricsServer() {
  if (context_ == nullptr) return;
  std::atomic<bool> stopped = false;
  std::thread stopper([this, &stopped] {
    mg_stop(context_);
    stopped = true;
  });
  while (!stopped) {
    Knock();
    std::this_thread::sleep_for(kKnockEvery);
  }
  stopper.join();
}

void MetricsServer::Knock() const {
  char error[128];
  mg_connection* connection = mg_connect_client(host_.c_str(), port_, 0, error, sizeof(error));
  if (connection != nullptr) mg_close_connection(connection);
}

absl::Status MetricsServer::Listen(absl::string_view host, int port) {
  const std::string wanted = absl::StrCat(host, ":", port);
  const char* options[] = {
      "listening_ports",    wanted.c_str(), "num_threads", "2", "enable_keep_alive", "no",
      "request_timeout_ms", "5000",         nullptr};
  mg_callbacks callbacks = {};
  callbacks.begin_request = &MetricsServer::OnRequest;
  callbacks.log_message = &MetricsServer::OnLog;
  context_ = mg_start(&callbacks, this, options);
  if (context_ == nullptr) {
    MutexLock lock(&mutex_);
    return absl::FailedPreconditionError(
        absl::StrCat("cannot serve metrics on ", wanted, ": ", first_message_));
  }
  mg_server_port bound = {};
  mg_get_server_ports(context_, 1, &bound);
  host_ = std::string(host);
  port_ = bound.port;
  address_ = absl::StrCat(host, ":", port_);
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

int MetricsServer::OnRequest(mg_connection* connection) {
  const auto* server =
      static_cast<const MetricsServer*>(mg_get_user_data(mg_get_context(connection)));
  const mg_request_info* request = mg_get_request_info(connection);
  const absl::string_view method = request->request_method;
  const char* host = mg_get_header(connection, "Host");
  const char* query = request->query_string;
  const Page page =
      server->Answer(method, {request->local_uri, query ? query : "", host ? host : ""});
  std::string reply = absl::StrFormat(
      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
      page.code, Reason(page.code), page.content_type, page.body.size());
  if (method != "HEAD") reply += page.body;
  mg_write(connection, reply.data(), reply.size());
  return page.code;
}

int MetricsServer::OnLog(const mg_connection* connection, const char* message) {
  auto* server = static_cast<MetricsServer*>(mg_get_user_data(mg_get_context(connection)));
  spdlog::debug("metrics server: {}", message);
  MutexLock lock(&server->mutex_);
  if (server->first_message_.empty()) server->first_message_ = message;
  return 1;
}

}  // namespace gradwire
