#include "worker/options/sync_choice.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

// "local-sgd:H", or "ddp".
std::string Form(absl::string_view name) {
  return absl::StrCat(name, TraitsOfSync(name).periodic ? ":H" : "");
}

}  // namespace

absl::string_view NameOfSync(absl::string_view sync) { return sync.substr(0, sync.find(':')); }

absl::StatusOr<int64_t> IntervalOfSync(absl::string_view sync) {
  const absl::string_view name = NameOfSync(sync);
  const bool given = name.size() < sync.size();
  if (!TraitsOfSync(name).periodic) {
    if (!given) return 0;
    return absl::InvalidArgumentError(
        absl::StrCat("got '", sync, "', expected ", name,
                     ", which exchanges in every step and has no interval"));
  }
  int64_t interval = 0;
  if (given && absl::SimpleAtoi(sync.substr(name.size() + 1), &interval) && interval > 0) {
    return interval;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got '", sync, "', expected ", Form(name),
                   ", where H is the number of steps between two exchanges, 1 or more"));
}

std::string SyncsWith(bool SyncTraits::*trait) {
  std::vector<std::string> forms;
  for (const std::string& name : NamesOf(SyncChoices())) {
    if (TraitsOfSync(name).*trait) forms.push_back(Form(name));
  }
  return absl::StrCat("--sync ", absl::StrJoin(forms, " or "));
}

std::string StalenessText(int64_t staleness) {
  return staleness == kNoBound ? "inf" : absl::StrCat(staleness);
}

OptionValue StalenessValue(int64_t* field) {
  OptionValue value;
  value.get = [field] { return StalenessText(*field); };
  value.initial = value.get();
  value.set = [field](const std::string& text) {
    int64_t steps = kNoBound;
    if (text != "inf" && (!absl::SimpleAtoi(text, &steps) || steps < 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("got '", text, "', expected a number of steps, 0 or more, or inf"));
    }
    *field = steps;
    return absl::OkStatus();
  };
  return value;
}

OptionValue SyncChoice(std::string* field) {
  OptionValue value = Choice(field, NamesOf(SyncChoices()));
  value.set = [field, choose = value.set](const std::string& text) {
    const std::string before = *field;
    absl::Status status = choose(std::string(NameOfSync(text)));
    if (status.ok()) status = IntervalOfSync(text).status();
    *field = status.ok() ? text : before;
    return status;
  };
  return value;
}

}  // namespace gradwire
