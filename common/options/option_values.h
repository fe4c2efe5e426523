#ifndef GRADWIRE_COMMON_OPTIONS_OPTION_VALUES_H_
#define GRADWIRE_COMMON_OPTIONS_OPTION_VALUES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gradwire {

// Converts the text of one option to a field. The field must outlive the value.
struct OptionValue {
  // Checks the text and writes the field. InvalidArgument "got 'x', expected …"; the field then
  // keeps its value.
  std::function<absl::Status(const std::string& text)> set;
  // Returns the field as a text that `set` accepts, "" if it has a default without a text. Only
  // rows with an Agreement need it.
  std::function<std::string()> get;
  std::string initial;     // the field's value at construction, for --help
  bool is_switch = false;  // the option without a value means true
  bool is_list = false;    // the flag may be repeated: `set` gets each value
};

// Whole numbers from `min` to `max`.
OptionValue Integer(int* field, int min, int max = INT32_MAX);
OptionValue Integer(int64_t* field, int64_t min, int64_t max = INT64_MAX);
OptionValue Integer(uint64_t* field, uint64_t min, uint64_t max = UINT64_MAX);

// Returns a text that reads as the same finite number: six digits, or as many more as that takes.
std::string RealText(double number);

// Finite numbers; `above` excludes its bound, `from` includes it.
OptionValue RealAbove(double* field, double bound);
OptionValue RealFrom(double* field, double bound);
// from ≤ x < below
OptionValue RealFromBelow(double* field, double from, double below);
// above < x < below
OptionValue RealBetween(double* field, double above, double below);

// true or false (also 1, 0, yes, no, on, off).
OptionValue Switch(bool* field);

// One of `names`; the error for another name suggests the nearest.
OptionValue Choice(std::string* field, std::vector<std::string> names);

// Anything.
OptionValue Text(std::string* field);

// "HOST:PORT". Port 0 selects a free port when listening, and is an error when connecting.
OptionValue ListenAddress(std::string* field);
OptionValue ConnectAddress(std::string* field);
// Like ListenAddress, or "off".
OptionValue ListenAddressOrOff(std::string* field);

// `value` with another text for its default in --help, such as "assigned".
OptionValue WithDefault(OptionValue value, std::string shown);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_OPTION_VALUES_H_
