#ifndef GRADWIRE_TESTS_FUZZ_FUZZ_TARGET_H_
#define GRADWIRE_TESTS_FUZZ_FUZZ_TARGET_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire {

#define GRADWIRE_FUZZ_TARGET(name, Name, mutations)      \
  std::string ViolatedBy##Name(absl::string_view input); \
  std::vector<std::string> Name##Seeds();
#include "tests/fuzz/targets.inc"
#undef GRADWIRE_FUZZ_TARGET

// Something that takes bytes from others, or that others' bytes decide about.
struct FuzzTarget {
  std::string name;
  // Puts an input through it. "" if every property held, or a sentence that names the one that did
  // not. Memory errors are for the sanitizers to find.
  std::string (*violated)(absl::string_view input);
  // Inputs to begin with, made by code: good ones of every kind, and nearly good ones.
  std::vector<std::string> (*seeds)();
  int mutations;  // that the ordinary tests run
};

// The target's seeds, and what is kept of its corpus: corpus/NAME, a line of hexadecimal digits for
// each input.
std::vector<std::string> InputsOf(const FuzzTarget& target);

// The sentence with the input in front, in hexadecimal digits; "" if all is well.
std::string Try(const FuzzTarget& target, const std::string& input);

// The same of the first of its inputs, and of as many changes of them, that violates something. The
// changes are the same each time.
std::string TryAll(const FuzzTarget& target);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FUZZ_FUZZ_TARGET_H_
