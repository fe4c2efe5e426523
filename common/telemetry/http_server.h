#ifndef GRADWIRE_COMMON_TELEMETRY_HTTP_SERVER_H_
#define GRADWIRE_COMMON_TELEMETRY_HTTP_SERVER_H_

#include <poll.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/address.h"
#include "common/telemetry/page_socket.h"

namespace gradwire {

// Returns whether `host` of a request ("node0:9400") may mean this server. A web page can point a
// name of its own at any address, and so make a browser within the network read our pages ("DNS
// rebinding"); that needs a name in the public DNS. So these names are accepted: IP addresses,
// names without a dot, names in domains that the public DNS does not use, this host's own name, and
// `names`. Also an empty host, which no browser sends.
bool IsOurs(absl::string_view host, const std::vector<std::string>& names);

// Returns whether a request's header "Authorization" has the run's token (common/base/token.h): as
// "Bearer TOKEN" from programs, or as "Basic " and the Base64 of "NAME:TOKEN", with any name, from
// browsers. RFC 6750, 2.1; RFC 7617, 2.
bool ShowsToken(absl::string_view authorization, absl::string_view token);

// A request to an HTTP server.
struct PageRequest {
  absl::string_view path;           // "/sd"
  absl::string_view query;          // part after "?"; may be empty
  absl::string_view host;           // "host:port" in the client's request; may be empty
  absl::string_view authorization;  // header of this name; may be empty
};

constexpr char kPlainText[] = "text/plain; charset=utf-8";

// The answer to a request.
struct Page {
  int code = 200;
  std::string content_type;
  std::string body;
};

// Serves pages over HTTP/1.1, optionally with TLS, one request per connection, all on one thread
// that waits for no client: half a request or an unread answer costs a descriptor and some memory
// for some seconds and delays no other client. (A library with one thread per connection lacks both
// properties.)
//
//   accept ─► READING ── head is there ─► WRITING ── all is sent ─► DRAINING ─► closed
//                │ kReadTime               │ kWriteTime              │ kDrainTime
//                │ TLS: kGreetTime         │                         │
//                └─────────────────────────┴─────────────────────────┴────────► closed
//
// If there are too many connections, the one that has been reading for longest is closed.
class HttpServer {
 public:
  // Called on the server's thread; must not block.
  using Handler = std::function<Page(absl::string_view method, const PageRequest& request)>;

  // `tls`: null for plain HTTP.
  HttpServer(Listening listening, Handler handler, std::unique_ptr<PageTls> tls = nullptr);
  // Ends at once; connections are closed.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Returns the whole answer to a request whose head, without the empty line, is `head`.
  static std::string AnswerTo(absl::string_view head, const Handler& handler);

 private:
  enum class State { kReading, kWriting, kDraining };
  struct Connection {
    PageSocket socket;
    absl::Time deadline;
    State state = State::kReading;
    std::string text;  // received so far, or still to be sent
  };

  void Run();
  // Waits for an event; returns false at the end.
  bool Wait(std::vector<pollfd>* waited);
  void TakeAll(const UniqueFd& listening);
  void MakeRoom();
  // Continues with a connection; returns false when it is over.
  bool GoOn(Connection* connection);
  bool Read(Connection* connection);
  bool Write(Connection* connection);
  bool End(Connection* connection);
  bool Drain(Connection* connection);
  bool Answer(Connection* connection);

  const Listening listening_;
  const Handler handler_;
  const std::unique_ptr<PageTls> tls_;             // null: plain HTTP
  const size_t limit_;                             // connections
  const UniqueFd ended_;                           // an eventfd
  absl::Time rests_until_ = absl::InfinitePast();  // no connection is accepted
  std::list<Connection> connections_;              // oldest first
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_HTTP_SERVER_H_
