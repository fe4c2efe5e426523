#include "tests/support/scripted_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gradwire::testing {
namespace {

// False if the server is to end before.
bool WaitToRead(int socket, int wake) {
  pollfd ready[] = {{socket, POLLIN, 0}, {wake, POLLIN, 0}};
  while (poll(ready, 2, -1) < 0) continue;
  return ready[1].revents == 0;
}

void ReadRequest(int peer, int wake) {
  std::string request;
  char buffer[1024];
  while (!absl::StrContains(request, "\r\n\r\n") && WaitToRead(peer, wake)) {
    const ssize_t got = recv(peer, buffer, sizeof(buffer), 0);
    if (got <= 0) return;
    request.append(buffer, static_cast<size_t>(got));
  }
}

void SendAll(int peer, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t sent = send(peer, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) return;
    done += static_cast<size_t>(sent);
  }
}

}  // namespace

ScriptedServer::ScriptedServer(std::vector<std::string> answers, bool stays_open)
    : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  int wake[2] = {-1, -1};
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 4) != 0 || pipe2(wake, O_CLOEXEC) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  wake_read_ = wake[0];
  wake_write_ = wake[1];
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([=, answers = std::move(answers)] { Serve(answers, stays_open); });
}

ScriptedServer::~ScriptedServer() {
  close(wake_write_);
  thread_.join();
  close(wake_read_);
  if (listener_ >= 0) close(listener_);
}

std::string ScriptedServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

void ScriptedServer::Serve(const std::vector<std::string>& answers, bool stays_open) {
  std::vector<int> open;
  for (const std::string& answer : answers) {
    if (!WaitToRead(listener_, wake_read_)) break;
    const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    // Closed before the last answer, so that who has it finds nobody any more.
    if (&answer == &answers.back()) close(std::exchange(listener_, -1));
    ReadRequest(peer, wake_read_);
    SendAll(peer, answer);
    open.push_back(peer);
    if (stays_open) continue;
    close(peer);
    open.pop_back();
  }
  pollfd wake = {wake_read_, POLLIN, 0};
  while (stays_open && poll(&wake, 1, -1) < 0) continue;
  for (const int peer : open) close(peer);
}

std::string HttpAnswer(const std::string& body, int code) {
  return absl::StrCat("HTTP/1.1 ", code, " Told\r\nContent-Length: ", body.size(),
                      "\r\nConnection: close\r\n\r\n", body);
}

}  // namespace gradwire::testing
