#ifndef GRADWIRE_COMMON_METRICS_SERVER_H_
#define GRADWIRE_COMMON_METRICS_SERVER_H_

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"

struct mg_connection;
struct mg_context;

namespace gradwire {

// Answers plain HTTP, GET and HEAD, on threads of its own:
//
//   /metrics   200, the registry in Prometheus' text format
//   /healthz   200 as long as the process can answer
//   /readyz    200 or 503, as `ready` says
//   else       404; other methods 405
//
// Thread-safe. The destructor ends open requests and joins the threads.
class MetricsServer {
 public:
  // Called on the server's threads, several at a time; must not block.
  using Ready = std::function<bool()>;

  // Listens on `address`, "host:port"; port 0 picks a free one. Errors:
  //   InvalidArgument     `address` is not of that form
  //   FailedPrecondition  the address cannot be bound; says why
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      absl::string_view address, std::shared_ptr<prometheus::Registry> registry, Ready ready);

  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // "host:port" with the port that was bound.
  const std::string& address() const { return address_; }

 private:
  struct Page {
    int code;
    std::string content_type;
    std::string body;
  };

  MetricsServer(std::shared_ptr<prometheus::Registry> registry, Ready ready);
  absl::Status Listen(absl::string_view host, int port);
  // Connects to this server, to wake the thread that accepts.
  void Knock() const;
  Page Answer(absl::string_view method, absl::string_view path) const;

  // civetweb's callbacks.
  static int OnRequest(mg_connection* connection);
  static int OnLog(const mg_connection* connection, const char* message);

  const std::shared_ptr<prometheus::Registry> registry_;
  const Ready ready_;
  Mutex mutex_;
  std::string first_message_ ABSL_GUARDED_BY(mutex_);  // of civetweb: why it did not start
  std::string host_;
  int port_ = 0;
  std::string address_;
  mg_context* context_ = nullptr;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_METRICS_SERVER_H_
