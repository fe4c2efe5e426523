#ifndef GRADWIRE_COMMON_TELEMETRY_PAGE_SOCKET_H_
#define GRADWIRE_COMMON_TELEMETRY_PAGE_SOCKET_H_

struct ssl_ctx_st;
struct ssl_st;
#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/address.h"
#include "common/base/logging.h"
#include "common/rpc/security.h"

namespace gradwire {

// How pages are encrypted: like calls, with certificates of the run's CA on both sides. The files
// are checked at most once a second. New files apply to later connections; while they do not match
// each other, the last matching ones are used. Not thread-safe.
class PageTls {
 public:
  // Errors: as for CheckCertificates.
  static absl::StatusOr<std::unique_ptr<PageTls>> Read(const SecurityOptions& options);
  PageTls(const PageTls&) = delete;
  PageTls& operator=(const PageTls&) = delete;

  // Returns the context for the next connection.
  ssl_ctx_st* Context();

 private:
  explicit PageTls(const SecurityOptions& options) : options_(options) {}
  absl::Status Take();
  // Changes when one of the files changes.
  std::string Stamp() const;

  const SecurityOptions options_;
  TlsContext context_;
  std::string stamp_;  // of the files that it was made from
  absl::Time next_look_;
  LogThrottle log_;
};

// A non-blocking connection, with or without TLS. Not thread-safe; SIGPIPE must be blocked.
class PageSocket {
 public:
  static constexpr ssize_t kOver = 0;    // it has ended or failed
  static constexpr ssize_t kLater = -1;  // try again when events() are ready

  // `socket` must be non-blocking. With a context it is the server side of TLS, else it is plain.
  explicit PageSocket(UniqueFd socket, ssl_ctx_st* context = nullptr);

  int get() const { return socket_.get(); }
  // The events for which poll must wait before the next try.
  short events() const { return events_; }

  // Returns the number of bytes received or sent; kOver; kLater.
  ssize_t Receive(char* bytes, size_t size);
  ssize_t Send(const char* bytes, size_t size);
  // Sends no more data; data received afterwards are not decrypted and must be dropped.
  void EndSending();

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };

  ssize_t PlainResult(ssize_t moved, short events);
  ssize_t TlsResult(int result);

  UniqueFd socket_;
  std::unique_ptr<ssl_st, Free> ssl_;  // null: plain
  short events_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_PAGE_SOCKET_H_
