#ifndef GRADWIRE_TESTS_SIMULATE_JOURNAL_H_
#define GRADWIRE_TESTS_SIMULATE_JOURNAL_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/simulate/events.h"

namespace gradwire::simulate {

// What happened, if anybody wants to read it, and the first thing that must not be.
class Journal {
 public:
  Journal(const Events* events, bool is_kept)
      : events_(events), start_(events->now()), is_kept_(is_kept) {}

  template <typename... Parts>
  void Say(const Parts&... parts) {
    if (!is_kept_) return;
    lines_.push_back(absl::StrFormat("%10.4f  %s", absl::ToDoubleSeconds(events_->now() - start_),
                                     absl::StrCat(parts...)));
  }
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    Say("VIOLATION ", parts...);
    if (failure_.empty()) failure_ = absl::StrCat(parts...);
  }

  // Empty: all is well.
  const std::string& failure() const { return failure_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  const Events* const events_;
  const absl::Time start_;
  const bool is_kept_;
  std::string failure_;
  std::vector<std::string> lines_;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_JOURNAL_H_
