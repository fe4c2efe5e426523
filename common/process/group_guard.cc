#include "common/process/group_guard.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace gradwire {
namespace {

// In the guard: nothing but SIGKILL ends it before its parent's end of the socket is
// closed, and it holds nothing else open that anyone might wait for.
[[noreturn]] void Guard(int socket) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_NAME, "gradwire-guard");
  dup2(socket, STDIN_FILENO);
  closefrom(STDIN_FILENO + 1);
  std::set<pid_t> groups;
  pid_t message = 0;
  while (recv(STDIN_FILENO, &message, sizeof(message), 0) == sizeof(message)) {
    if (message > 0) groups.insert(message);
    if (message < 0) groups.erase(-message);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

GroupGuard::GroupGuard() {
  int sockets[2] = {-1, -1};
  const bool connected = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0;
  if (connected) pid_ = fork();
  if (pid_ == 0) Guard(sockets[1]);
  if (pid_ < 0) spdlog::warn("no guard against orphans: {}", std::strerror(errno));
  socket_ = sockets[0];
  close(sockets[1]);
}

GroupGuard::~GroupGuard() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(socket_);
}

void GroupGuard::Tell(pid_t message) {
  send(socket_, &message, sizeof(message), MSG_NOSIGNAL);  // a guard that was killed gets none
}

}  // namespace gradwire
