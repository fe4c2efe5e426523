#include "cli/bench/hosts.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/bench/job_group.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);
constexpr char kThisMachine[] = "127.0.0.1";

}  // namespace

Hosts::Hosts(std::string program, const Environment& environment, std::function<bool()> stopped)
    : program_(std::move(program)), environment_(environment), stopped_(std::move(stopped)) {
  for (auto it = environment_.begin(); it != environment_.end();) {
    it = absl::StartsWith(it->first, "GRADWIRE_") ? environment_.erase(it) : std::next(it);
  }
}

Hosts::~Hosts() {
  if (!up_) return;
  const auto down = RunJob({absl::StrCat(program_, " down"), {{program_, "down"}, environment_}},
                           kTimeout, [] { return false; });
  if (!down.ok()) spdlog::warn("{}", std::string(down.status().message()));
}

absl::StatusOr<std::string> Hosts::Ask(std::vector<std::string> args) const {
  args.insert(args.begin(), program_);
  const std::string name = absl::StrCat(program_, " ", args[1]);
  // What it leaves may be the hosts.
  const Command command{std::move(args), environment_, /*leaves_others=*/true};
  return RunJob({name, command}, kTimeout, stopped_);
}

absl::Status Hosts::Up(int count, const std::string& rate) {
  if (local()) {
    addresses_.assign(count, kThisMachine);
    return absl::OkStatus();
  }
  up_ = true;
  const auto up = Ask({"up", absl::StrCat(count), rate});
  if (!up.ok()) return up.status();
  for (int host = 0; host < count; ++host) {
    const absl::StatusOr<std::string> address = Ask({"addr", absl::StrCat(host)});
    if (!address.ok()) return address.status();
    addresses_.emplace_back(absl::StripAsciiWhitespace(*address));
  }
  return absl::OkStatus();
}

Command Hosts::On(int host, std::vector<std::string> argv) const {
  if (!local()) argv.insert(argv.begin(), {program_, "run", absl::StrCat(host)});
  return {std::move(argv), environment_};
}

}  // namespace gradwire
