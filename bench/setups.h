#ifndef GRADWIRE_BENCH_SETUPS_H_
#define GRADWIRE_BENCH_SETUPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire {

enum class SetupKind {
  kAlone,  // every rank for itself
  kOwn,    // with a coordinator
  kPeer,   // PyTorch + Gloo
};

// A line of bench/setups.inc.
struct Setup {
  std::string name;
  SetupKind kind = SetupKind::kOwn;
  std::vector<std::string> options;
  std::vector<std::string> peers;
  std::string help;
};

// All lines, in order.
const std::vector<Setup>& Setups();
std::vector<std::string> SetupNames();
// The line called `name`, which exists.
const Setup& SetupCalled(absl::string_view name);
// For --help: a line for each.
std::string DescribeSetups();

// Fills in `chosen` if it is empty: all lines of Gradwire's, and the peers' if
// `peers`. InvalidArgument if a peer is chosen without `peers`, or `dataset` is
// one that the peer cannot read.
absl::Status CompleteSetups(bool peers, const std::string& dataset,
                            std::vector<std::string>* chosen);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_SETUPS_H_
