#include "common/options/option_values.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/address.h"
#include "common/options/suggest.h"

namespace gradwire {
namespace {

absl::Status Expected(const std::string& got, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("got '", got, "', expected ", expected));
}

template <typename T>
std::string IntegerRange(T min, T max, T largest) {
  if (max == largest) return absl::StrCat("an integer of ", min, " or more");
  return absl::StrCat("an integer from ", min, " to ", max);
}

template <typename Wide, typename Field>
OptionValue IntegerValue(Field* field, Wide min, Wide max, Wide largest) {
  OptionValue value;
  value.initial = absl::StrCat(*field);
  value.set = [=](const std::string& text) {
    Wide number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < min || number > max) {
      return Expected(text, IntegerRange<Wide>(min, max, largest));
    }
    *field = static_cast<Field>(number);
    return absl::OkStatus();
  };
  return value;
}

template <typename Accept>
OptionValue RealValue(double* field, std::string expected, Accept accept) {
  OptionValue value;
  value.initial = absl::StrCat(*field);
  value.set = [=](const std::string& text) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !std::isfinite(number) || !accept(number)) {
      return Expected(text, expected);
    }
    *field = number;
    return absl::OkStatus();
  };
  return value;
}

OptionValue AddressValue(std::string* field, bool may_be_zero, bool may_be_off) {
  OptionValue value;
  value.initial = *field;
  value.set = [=](const std::string& text) {
    const bool off = may_be_off && text == "off";
    const absl::StatusOr<HostPort> address = ParseHostPort(text);
    const bool usable = address.ok() && (address->port != 0 || may_be_zero);
    if (!off && !usable) {
      return Expected(text, absl::StrCat("HOST:PORT with a port from ", may_be_zero ? 0 : 1,
                                         " to 65535", may_be_off ? ", or off" : ""));
    }
    *field = text;
    return absl::OkStatus();
  };
  return value;
}

}  // namespace

OptionValue Integer(int* field, int64_t min, int64_t max) {
  return IntegerValue<int64_t>(field, min, max, std::numeric_limits<int>::max());
}

OptionValue Integer(int64_t* field, int64_t min, int64_t max) {
  return IntegerValue<int64_t>(field, min, max, std::numeric_limits<int64_t>::max());
}

OptionValue Integer(uint64_t* field, uint64_t min, uint64_t max) {
  return IntegerValue<uint64_t>(field, min, max, std::numeric_limits<uint64_t>::max());
}

OptionValue RealAbove(double* field, double bound) {
  return RealValue(field, absl::StrCat("a number above ", bound),
                   [=](double number) { return number > bound; });
}

OptionValue RealFrom(double* field, double bound) {
  return RealValue(field, absl::StrCat("a number of ", bound, " or more"),
                   [=](double number) { return number >= bound; });
}

OptionValue RealFromBelow(double* field, double from, double below) {
  return RealValue(field, absl::StrCat("a number of ", from, " or more and below ", below),
                   [=](double number) { return number >= from && number < below; });
}

OptionValue Switch(bool* field) {
  OptionValue value;
  value.initial = *field ? "true" : "false";
  value.is_switch = true;
  value.set = [=](const std::string& text) {
    const std::string lower = absl::AsciiStrToLower(text);
    const bool yes = lower == "true" || lower == "1" || lower == "yes" || lower == "on";
    const bool no = lower == "false" || lower == "0" || lower == "no" || lower == "off";
    if (!yes && !no) return Expected(text, "true or false");
    *field = yes;
    return absl::OkStatus();
  };
  return value;
}

OptionValue Choice(std::string* field, std::vector<std::string> names) {
  OptionValue value;
  value.initial = *field;
  value.set = [field, names = std::move(names)](const std::string& text) {
    for (const std::string& name : names) {
      if (text != name) continue;
      *field = text;
      return absl::OkStatus();
    }
    if (names.size() == 1) return Expected(text, names.front());
    return Expected(
        text, absl::StrCat("one of ", absl::StrJoin(names, ", "), DidYouMean(text, names, "")));
  };
  return value;
}

OptionValue Text(std::string* field) {
  OptionValue value;
  value.initial = *field;
  value.set = [=](const std::string& text) {
    *field = text;
    return absl::OkStatus();
  };
  return value;
}

OptionValue ListenAddress(std::string* field) { return AddressValue(field, true, false); }

OptionValue ConnectAddress(std::string* field) { return AddressValue(field, false, false); }

OptionValue ListenAddressOrOff(std::string* field) { return AddressValue(field, true, true); }

OptionValue WithDefault(OptionValue value, std::string shown) {
  value.initial = std::move(shown);
  return value;
}

}  // namespace gradwire
