#include "tests/fuzz/fuzz_target.h"

#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/hex.h"

namespace gradwire {

std::vector<std::string> InputsOf(const FuzzTarget& target) {
  std::vector<std::string> inputs = target.seeds();
  std::ifstream corpus(absl::StrCat(GRADWIRE_SOURCE_DIR, "/tests/fuzz/corpus/", target.name));
  for (std::string line; std::getline(corpus, line);) {
    inputs.push_back(testing::BytesOfHex(line));
  }
  return inputs;
}

std::string Try(const FuzzTarget& target, const std::string& input) {
  const std::string violated = target.violated(input);
  if (violated.empty()) return "";
  return absl::StrCat(target.name, ", input ", absl::BytesToHexString(input), ": ", violated);
}

std::string TryAll(const FuzzTarget& target) {
  const std::vector<std::string> inputs = InputsOf(target);
  std::string violated;
  for (size_t i = 0; i < inputs.size() && violated.empty(); ++i) violated = Try(target, inputs[i]);
  Mutator mutator(1);
  for (int turn = 0; turn < target.mutations && violated.empty(); ++turn) {
    violated = Try(target, mutator.Next(inputs));
  }
  return violated;
}

}  // namespace gradwire
