#ifndef GRADWIRE_TESTS_SUPPORT_SOCKETS_H_
#define GRADWIRE_TESTS_SUPPORT_SOCKETS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gradwire::testing {

// Connects to `address` ("127.0.0.1:port"), sends `bytes`, ends its side if
// `half_close`, and returns all that comes back until the peer closes.
//   Unavailable        no connection
//   DeadlineExceeded   the peer was still open after `timeout`
absl::StatusOr<std::string> Exchange(absl::string_view address, absl::string_view bytes,
                                     bool half_close, absl::Duration timeout = absl::Seconds(10));

struct HttpReply {
  int code = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// One HTTP/1.1 request without a body. Errors of Exchange; InvalidArgument if
// the answer is not HTTP.
absl::StatusOr<HttpReply> HttpRequest(absl::string_view method, absl::string_view address,
                                      absl::string_view path);
absl::StatusOr<HttpReply> HttpGet(absl::string_view address, absl::string_view path);

// A TCP socket that listens on a port of 127.0.0.1 and accepts nothing.
class BusyPort {
 public:
  BusyPort();
  ~BusyPort();
  BusyPort(const BusyPort&) = delete;
  BusyPort& operator=(const BusyPort&) = delete;

  std::string address() const;  // "127.0.0.1:port"

 private:
  int socket_;
  int port_;
};

// "127.0.0.1:port" on which nothing listened a moment ago; no port that a server with port 0 gets.
std::string UnusedAddress();

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_SOCKETS_H_
