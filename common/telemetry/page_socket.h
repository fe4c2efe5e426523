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

// How pages are encrypted: as calls are, both ends show a certificate of the run's CA. The files
// are looked at once a second at most; new ones count for connections that come from then on, and
// while they do not fit together the last that did are used. Not thread-safe.
class PageTls {
 public:
  // Errors: those of CheckCertificates.
  static absl::StatusOr<std::unique_ptr<PageTls>> Read(const SecurityOptions& options);
  PageTls(const PageTls&) = delete;
  PageTls& operator=(const PageTls&) = delete;

  // For the next connection.
  ssl_ctx_st* Context();

 private:
  explicit PageTls(const SecurityOptions& options) : options_(options) {}
  absl::Status Take();
  // Differs once one of the files is another one.
  std::string Stamp() const;

  const SecurityOptions options_;
  TlsContext context_;
  std::string stamp_;  // of the files that it was made of
  absl::Time next_look_;
  LogThrottle log_;
};

// A connection on which nothing waits: with TLS, or without. Not thread-safe; where SIGPIPE is
// blocked.
class PageSocket {
 public:
  static constexpr ssize_t kOver = 0;    // it has ended, or cannot go on
  static constexpr ssize_t kLater = -1;  // once events() are there

  // `socket` does not block. With a context it is the server's end of TLS, else it is plain.
  explicit PageSocket(UniqueFd socket, ssl_ctx_st* context = nullptr);

  int get() const { return socket_.get(); }
  // What poll is to wait for before the next try.
  short events() const { return events_; }

  // How many bytes came, or went; kOver; kLater.
  ssize_t Receive(char* bytes, size_t size);
  ssize_t Send(const char* bytes, size_t size);
  // Nothing more is sent; what is received from then on is not decrypted, and only to be dropped.
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
