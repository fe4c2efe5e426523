#include "common/options/option_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "common/base/address.h"
#include "common/base/plain_text.h"

namespace gradwire {
namespace {

template <typename T>
std::string TextOf(const T& value) {
  return absl::StrCat(value);
}
std::string TextOf(double value) { return RealText(value); }

// `read` returns the value of a text, or none if the text is not as `expected`.
template <typename T, typename Read>
OptionValue ReadBy(T* field, const std::string& expected, Read read) {
  OptionValue value;
  value.get = [field] { return TextOf(*field); };
  value.initial = value.get();
  value.set = [=](const std::string& text) {
    const absl::optional<T> number = read(text);
    if (!number.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("got '", text, "', expected ", expected));
    }
    *field = *number;
    return absl::OkStatus();
  };
  return value;
}

template <typename T>
OptionValue IntegerValue(T* field, T min, T max) {
  const std::string upwards = absl::StrCat("an integer of ", min, " or more");
  const std::string range = absl::StrCat("an integer from ", min, " to ", max);
  const bool open = max == std::numeric_limits<T>::max();
  return ReadBy(field, open ? upwards : range, [=](const std::string& text) {
    T number = 0;
    const bool fits = absl::SimpleAtoi(text, &number) && number >= min && number <= max;
    return fits ? absl::make_optional(number) : absl::nullopt;
  });
}

template <typename Accept>
OptionValue RealValue(double* field, const std::string& expected, Accept accept) {
  return ReadBy(field, expected, [=](const std::string& text) {
    double number = 0;
    const bool fits = absl::SimpleAtod(text, &number) && std::isfinite(number) && accept(number);
    return fits ? absl::make_optional(number) : absl::nullopt;
  });
}

// A text that passes `accept`.
template <typename Accept>
OptionValue TextValue(std::string* field, const std::string& expected, Accept accept) {
  return ReadBy(field, expected, [=](const std::string& text) {
    return accept(text) ? absl::make_optional(text) : absl::nullopt;
  });
}

OptionValue AddressValue(std::string* field, int lowest_port, bool may_be_off) {
  const std::string expected = absl::StrCat("HOST:PORT with a port from ", lowest_port, " to 65535",
                                            may_be_off ? ", or off" : "");
  return TextValue(field, expected, [=](const std::string& text) {
    const absl::StatusOr<HostPort> address = ParseHostPort(text);
    return (may_be_off && text == "off") || (address.ok() && address->port >= lowest_port);
  });
}

}  // namespace

OptionValue Integer(int* field, int min, int max) { return IntegerValue(field, min, max); }

OptionValue Integer(int64_t* field, int64_t min, int64_t max) {
  return IntegerValue(field, min, max);
}

OptionValue Integer(uint64_t* field, uint64_t min, uint64_t max) {
  return IntegerValue(field, min, max);
}

std::string RealText(double number) {
  for (int digits = 6; digits < std::numeric_limits<double>::max_digits10; ++digits) {
    const std::string text = absl::StrFormat("%.*g", digits, number);
    double read = 0;
    if (absl::SimpleAtod(text, &read) && read == number) return text;
  }
  return absl::StrFormat("%.*g", std::numeric_limits<double>::max_digits10, number);
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

OptionValue RealBetween(double* field, double above, double below) {
  return RealValue(field, absl::StrCat("a number above ", above, " and below ", below),
                   [=](double number) { return number > above && number < below; });
}

OptionValue Switch(bool* field) {
  OptionValue value = ReadBy(field, "true or false", [](const std::string& text) {
    bool on = absl::EqualsIgnoreCase(text, "on");
    const bool known = on || absl::EqualsIgnoreCase(text, "off") || absl::SimpleAtob(text, &on);
    return known ? absl::make_optional(on) : absl::nullopt;
  });
  value.get = [field] { return *field ? "true" : "false"; };
  value.initial = value.get();
  value.is_switch = true;
  return value;
}

OptionValue Choice(std::string* field, std::vector<std::string> names) {
  OptionValue value;
  value.get = [field] { return *field; };
  value.initial = value.get();
  value.set = [field, names = std::move(names)](const std::string& text) {
    if (std::count(names.begin(), names.end(), text) > 0) {
      *field = text;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("got '", text, "', ", ExpectedOneOf(names, text)));
  };
  return value;
}

OptionValue Text(std::string* field) {
  return TextValue(field, "", [](const std::string&) { return true; });
}

OptionValue ListenAddress(std::string* field) { return AddressValue(field, 0, false); }

OptionValue ConnectAddress(std::string* field) { return AddressValue(field, 1, false); }

OptionValue ListenAddressOrOff(std::string* field) { return AddressValue(field, 0, true); }

OptionValue WithDefault(OptionValue value, std::string shown) {
  value.initial = std::move(shown);
  return value;
}

}  // namespace gradwire
