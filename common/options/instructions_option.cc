#include "common/options/instructions_option.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/fold/kernels.h"
#include "common/options/option_parser.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

std::vector<std::string> SupportedNames() {
  std::vector<std::string> names;
  for (const KernelSet& set : SupportedKernels()) names.emplace_back(set.name);
  return names;
}

}  // namespace

void AddInstructionsOption(std::string* name, OptionParser* parser) {
  parser->Add("instructions", "NAME",
              "instructions of the processor that sums and checksums use, with the same result:\n"
              "avx512, avx2 or baseline",
              WithDefault(Choice(name, {"avx512", "avx2", "baseline"}), "the best that it has"));
}

absl::Status UseInstructions(absl::string_view name) {
  if (name.empty()) return absl::OkStatus();
  const auto sets = SupportedKernels();
  const auto set = std::find_if(sets.begin(), sets.end(),
                                [name](const KernelSet& each) { return each.name == name; });
  if (set == sets.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--instructions: got '", name,
        "', expected what this processor has: ", absl::StrJoin(SupportedNames(), ", ")));
  }
  spdlog::info("sums and checksums use instructions of {}", set->name);
  UseKernels(*set);
  for (const Xxh3Kernel* kernel : Xxh3Kernels()) {
    if (kernel->name == name) UseXxh3(*kernel);
  }
  return absl::OkStatus();
}

}  // namespace gradwire
