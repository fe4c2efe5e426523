#ifndef GRADWIRE_CLI_TERMINAL_TERMINAL_H_
#define GRADWIRE_CLI_TERMINAL_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

enum class Output { kOut, kErr };

// Where the launcher writes: whole lines to stdout and stderr, and, on a
// terminal, a bar below them. Not thread-safe. Does not own the descriptors.
class Terminal {
 public:
  // `draws_bar`: err_fd is a terminal, and bars may be drawn on it.
  Terminal(int out_fd, int err_fd, bool draws_bar);
  // Takes the bar away.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // One write for each line, so that lines never mix.
  void PrintLine(Output output, absl::string_view line);
  // Replaces the bar; "" takes it away. Cut to the width of the terminal.
  void SetBar(absl::string_view text);

  bool draws_bar() const { return draws_bar_; }
  // Characters in a line of err_fd now; 80 if it is no terminal.
  int Columns() const;
  // Nobody reads any more (EPIPE).
  bool broken() const { return broken_; }

 private:
  void Write(int fd, absl::string_view bytes);

  const int out_fd_;
  const int err_fd_;
  const bool draws_bar_;
  std::string bar_;
  bool broken_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_TERMINAL_H_
