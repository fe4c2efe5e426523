#include "bench/setups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gradwire {

const std::vector<Setup>& Setups() {
  static const auto* const setups = new std::vector<Setup>{
#define GRADWIRE_SETUP(name, kind, options, peers, help)                        \
  Setup{name, SetupKind::kind, absl::StrSplit(options, ' ', absl::SkipEmpty()), \
        absl::StrSplit(peers, ' ', absl::SkipEmpty()), help},
#include "bench/setups.inc"
#undef GRADWIRE_SETUP
  };
  return *setups;
}

std::vector<std::string> SetupNames() {
  std::vector<std::string> names;
  for (const Setup& setup : Setups()) names.push_back(setup.name);
  return names;
}

const Setup& SetupCalled(absl::string_view name) {
  return *std::find_if(Setups().begin(), Setups().end(),
                       [name](const Setup& setup) { return setup.name == name; });
}

std::string DescribeSetups() {
  std::string text = "what is compared:";
  for (const Setup& setup : Setups()) {
    absl::StrAppend(&text, "\n  ", setup.name, ": ", setup.help);
  }
  return text;
}

absl::Status CompleteSetups(bool peers, const std::string& dataset,
                            std::vector<std::string>* chosen) {
  if (chosen->empty()) {
    for (const Setup& setup : Setups()) {
      if (peers || setup.kind != SetupKind::kPeer) chosen->push_back(setup.name);
    }
  }
  for (const std::string& name : *chosen) {
    if (SetupCalled(name).kind != SetupKind::kPeer) continue;
    if (!peers) {
      return absl::InvalidArgumentError(
          absl::StrCat("--setups: ", name, " is PyTorch + Gloo and needs --peers"));
    }
    if (dataset != "cifar10" && dataset != "synthetic") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--dataset: got '", dataset, "', expected cifar10 or synthetic with --peers"));
    }
  }
  return absl::OkStatus();
}

}  // namespace gradwire
