#ifndef GRADWIRE_COMMON_PROCESS_LINE_SPLITTER_H_
#define GRADWIRE_COMMON_PROCESS_LINE_SPLITTER_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// Makes lines of a child's output, as it comes in pieces of any size.
//
// With bars, text that ends with '\r' is a progress bar (see ProgressReporter);
// without, '\r' is a character like others. "\r\n" ends a line in both cases; a
// bar that ends so is taken away ("") and becomes a line. Of a stream with bars,
// spaces at the end are dropped: they cover what a longer bar left behind.
class LineSplitter {
 public:
  using OnText = std::function<void(absl::string_view text)>;

  // No bars if `on_bar` is empty. Texts come without their ends.
  LineSplitter(OnText on_line, OnText on_bar);

  // A line longer than 64 KiB is given out in parts.
  void Feed(absl::string_view bytes);
  // Gives out the last line if it has no end.
  void Flush();

 private:
  void EndLine();
  void EndBar();
  std::string Take();

  const OnText on_line_;
  const OnText on_bar_;
  std::string text_;
  std::string last_bar_;       // a line after all, if '\n' comes next
  bool after_return_ = false;  // the last character was the '\r' of a bar
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_PROCESS_LINE_SPLITTER_H_
