#ifndef GRADWIRE_COMMON_TELEMETRY_PAGE_SOCKET_H_
#define GRADWIRE_COMMON_TELEMETRY_PAGE_SOCKET_H_

#include <sys/types.h>

#include <memory>

#include "common/base/descriptor.h"

struct ssl_ctx_st;
struct ssl_st;

namespace gradwire {

// A connection on which nothing waits: with TLS, or without. Not thread-safe; where SIGPIPE is
// blocked.
class PageSocket {
 public:
  static constexpr ssize_t kOver = 0;    // it has ended, or cannot go on
  static constexpr ssize_t kLater = -1;  // once events() are there

  // `socket` does not block. With a context it is the server's end of TLS, else it is plain.
  explicit PageSocket(Descriptor socket, ssl_ctx_st* context = nullptr);

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

  Descriptor socket_;
  std::unique_ptr<ssl_st, Free> ssl_;  // null: plain
  short events_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_PAGE_SOCKET_H_
