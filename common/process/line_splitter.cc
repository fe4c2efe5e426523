#include "common/process/line_splitter.h"

#include <utility>

#include "absl/strings/ascii.h"

namespace gradwire {
namespace {

constexpr size_t kLongestLine = 64 << 10;

}  // namespace

LineSplitter::LineSplitter(OnText on_line, OnText on_bar)
    : on_line_(std::move(on_line)), on_bar_(std::move(on_bar)) {}

void LineSplitter::Feed(absl::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      EndLine();
    } else if (c == '\r' && on_bar_) {
      EndBar();
    } else {
      after_return_ = false;
      text_ += c;
      if (text_.size() >= kLongestLine) EndLine();
    }
  }
}

void LineSplitter::Flush() {
  after_return_ = false;
  if (!text_.empty()) EndLine();
}

void LineSplitter::EndLine() {
  if (after_return_) {
    text_ = std::move(last_bar_);
    on_bar_("");
  }
  after_return_ = false;
  if (!text_.empty() && text_.back() == '\r') text_.pop_back();
  on_line_(Take());
}

void LineSplitter::EndBar() {
  last_bar_ = Take();
  after_return_ = true;
  on_bar_(last_bar_);
}

std::string LineSplitter::Take() {
  std::string taken = std::exchange(text_, "");
  if (on_bar_) absl::StripTrailingAsciiWhitespace(&taken);
  return taken;
}

}  // namespace gradwire
