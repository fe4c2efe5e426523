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

// Whether `host` of a request ("node0:9400") may mean this server. A page of the web can let a
// name of its own stand for any address, and so have a browser within the network read what is
// served there ("DNS rebinding"); it can do that only with a name that the public DNS knows. So
// these are ours: IP addresses, names without a dot, those under the domains that the public
// DNS leaves alone, this host's own name, and `names`. An empty host, too: no browser sends it.
bool IsOurs(absl::string_view host, const std::vector<std::string>& names);

// Whether a request's header "Authorization" shows the run's token (common/base/token.h): as
// programs do, "Bearer TOKEN", or as browsers do, "Basic " and the Base64 of "NAME:TOKEN", with any
// name. RFC 6750, 2.1; RFC 7617, 2.
bool ShowsToken(absl::string_view authorization, absl::string_view token);

// What an HTTP server is asked for.
struct PageRequest {
  absl::string_view path;   // "/sd"
  absl::string_view query;  // what follows "?"; may be empty
  absl::string_view host;   // "host:port" by which the client reached this server; may be empty
  absl::string_view authorization;  // the header of this name; may be empty
};

constexpr char kPlainText[] = "text/plain; charset=utf-8";

// What it answers.
struct Page {
  int code = 200;
  std::string content_type;
  std::string body;
};

// Serves pages over HTTP/1.1, with TLS if wanted, one request a connection, all on one thread that
// waits for nobody: whoever sends half a request, or takes half an answer, costs a descriptor and
// some memory for some seconds and holds up no one. (A library with a thread for each connection
// does neither.)
//
//   accept ─► READING ── head is there ─► WRITING ── all is sent ─► DRAINING ─► closed
//                │ kReadTime               │ kWriteTime              │ kDrainTime
//                │ TLS: kGreetTime         │                         │
//                └─────────────────────────┴─────────────────────────┴────────► closed
//
// When there are too many connections the one that has been reading for longest goes.
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

  // The whole answer to a request whose head, without the empty line, is `head`.
  static std::string AnswerTo(absl::string_view head, const Handler& handler);

 private:
  enum class State { kReading, kWriting, kDraining };
  struct Connection {
    PageSocket socket;
    absl::Time deadline;
    State state = State::kReading;
    std::string text;  // what was read, or what is left to write
  };

  void Run();
  // Waits until something can be done; false: the end.
  bool Wait(std::vector<pollfd>* waited);
  void TakeAll(const UniqueFd& listening);
  void MakeRoom();
  // Goes on with a connection; false: it is over.
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
  absl::Time rests_until_ = absl::InfinitePast();  // nobody is taken in
  std::list<Connection> connections_;              // oldest first
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_HTTP_SERVER_H_
