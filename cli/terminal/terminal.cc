#include "cli/terminal/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr char kClearLine[] = "\r\x1b[K";

}  // namespace

Terminal::Terminal(int out_fd, int err_fd, bool draws_bar)
    : out_fd_(out_fd), err_fd_(err_fd), draws_bar_(draws_bar) {}

Terminal::~Terminal() { SetBar(""); }

void Terminal::PrintLine(Output output, absl::string_view line) {
  if (!bar_.empty()) Write(err_fd_, kClearLine);
  Write(output == Output::kOut ? out_fd_ : err_fd_, absl::StrCat(line, "\n"));
  if (!bar_.empty()) Write(err_fd_, bar_);
}

void Terminal::SetBar(absl::string_view text) {
  if (!draws_bar_) return;
  // A bar with colours is not cut: half an escape sequence would do worse, and
  // rank 0 was told the width.
  const bool coloured = text.find('\x1b') != text.npos;
  const std::string cut(text.substr(0, coloured ? text.npos : Columns() - 1));
  if (!cut.empty() || !bar_.empty()) Write(err_fd_, absl::StrCat(kClearLine, cut));
  bar_ = cut;
}

int Terminal::Columns() const {
  winsize size = {};
  const bool known = ioctl(err_fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

void Terminal::Write(int fd, absl::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(written);
    } else if (errno == EAGAIN) {
      pollfd writable = {fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      broken_ = errno == EPIPE;
      return;
    }
  }
}

}  // namespace gradwire
