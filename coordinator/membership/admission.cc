#include "coordinator/membership/admission.h"

#include <algorithm>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"
#include "common/base/plain_text.h"
#include "common/wire/protocol.h"

namespace gradwire {
namespace {

// Longest text that a worker may send about itself; some of it is sent to all others.
constexpr size_t kMostWord = 64;
constexpr size_t kMostName = 256;
constexpr size_t kMostValue = 1024;
constexpr int kMostSettings = 256;

absl::Status CheckLength(absl::string_view what, absl::string_view text, size_t most) {
  if (text.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": got ", text.size(), " bytes, expected at most ", most));
}

absl::Status CheckEnvironment(const v1::Hello& hello) {
  if (hello.environment_size() > kMostSettings) {
    return absl::InvalidArgumentError(absl::StrCat("environment: got ", hello.environment_size(),
                                                   " values, expected at most ", kMostSettings));
  }
  absl::Status status;
  for (const auto& [name, value] : hello.environment()) {
    status.Update(CheckLength("name in the environment", name, kMostWord));
    status.Update(CheckLength("value in the environment", value, kMostValue));
  }
  return status;
}

absl::Status CheckTexts(const v1::Hello& hello) {
  absl::Status status = CheckLength("version", hello.version(), kMostWord);
  status.Update(CheckLength("host", hello.host(), kMostName));
  status.Update(CheckLength("id of shared memory", hello.memory(), kMostName));
  status.Update(CheckLength("reason for no recovery", hello.cannot_recover(), kMostValue));
  status.Update(CheckEnvironment(hello));
  if (!hello.metrics().empty()) status.Update(ParseHostPort(hello.metrics()).status());
  if (hello.settings_size() > kMostSettings) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        "got ", hello.settings_size(), " settings, expected at most ", kMostSettings)));
  }
  for (const auto& [name, value] : hello.settings()) {
    status.Update(CheckLength("name of a setting", name, kMostWord));
    status.Update(CheckLength("value of a setting", value, kMostValue));
  }
  return status;
}

absl::Status CheckProtocol(uint32_t protocol, absl::string_view version) {
  if (protocol == kProtocolVersion) return absl::OkStatus();
  const std::string program =
      version.empty() ? "" : absl::StrCat(" (gradwire ", Shortened(version, kMostWord), ")");
  return absl::InvalidArgumentError(absl::StrCat("got protocol ", protocol, program, ", expected ",
                                                 kProtocolVersion, " (", GRADWIRE_VERSION, ")"));
}

absl::Status CheckIncarnation(Incarnation incarnation, const Roster& roster) {
  if (roster.WasRemoved(incarnation)) {
    return absl::FailedPreconditionError(absl::StrCat("incarnation ", incarnation.value(),
                                                      " has left this run; start the worker anew"));
  }
  const Participant* member = roster.Find(incarnation);
  if (member == nullptr) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("incarnation ", incarnation.value(), " is ", Describe(*member)));
}

absl::Status CheckWorldSize(uint32_t got, const RunSize& size) {
  if (got == 0 || got == static_cast<uint32_t>(size.world_size)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("world size: got ", got, ", expected ", size.world_size, " (coordinator)"));
}

absl::Status CheckRanks(const v1::Hello& hello, const RunSize& size) {
  std::set<uint32_t> ranks;
  for (uint32_t rank : hello.ranks()) {
    if (rank >= static_cast<uint32_t>(size.world_size)) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank: got ", rank, ", expected 0 to ", size.world_size - 1));
    }
    if (ranks.insert(rank).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rank: got ", rank, " twice, expected each once"));
  }
  return absl::OkStatus();
}

// InvalidArgument if exactly one of the two addresses is a loopback address: it cannot be reached
// from the other host.
absl::Status CheckReach(const std::string& address, const Participant& other) {
  const absl::StatusOr<HostPort> mine = ParseHostPort(address);
  const absl::StatusOr<HostPort> theirs = ParseHostPort(other.address);
  if (!mine.ok()) return mine.status();
  if (!theirs.ok()) return theirs.status();
  if (IsLoopback(mine->host) == IsLoopback(theirs->host)) return absl::OkStatus();
  const bool mine_is_bad = IsLoopback(mine->host);
  const std::string name = NameOf(other);
  return absl::InvalidArgumentError(absl::StrCat(
      "address: got ", address, ", but ", name, " has ", other.address, ", and ",
      mine_is_bad ? address : other.address, " cannot be reached from other hosts; start ",
      mine_is_bad ? "this worker" : name,
      " with --coordinator set to the address that the coordinator's host has in the common "
      "network, or with --advertise HOST"));
}

absl::Status CheckAddress(const std::string& address, const Roster& roster) {
  // All members were compared with the first one when they joined.
  const auto members = roster.All();
  if (!members.empty()) return CheckReach(address, *members.front());
  return ParseHostPort(address).status();
}

absl::Status CheckRoom(const Roster& roster) {
  // A run with all workers may still wait for aggregators.
  if (!roster.HasAllWorkers()) return absl::OkStatus();
  const RunSize& size = roster.size();
  const std::string count = size.workers == size.world_size ? "" : absl::StrCat(size.workers, " ");
  return absl::FailedPreconditionError(
      absl::StrCat("the run has all its ", count, "workers; its world size is ", size.world_size));
}

absl::Status CheckWish(const v1::Hello& hello, const Roster& roster) {
  const Wish wish = WishOf(hello);
  for (const Participant* worker : roster.Workers()) {
    for (Rank rank : worker->wish) {
      if (std::find(wish.begin(), wish.end(), rank) == wish.end()) continue;
      return absl::AlreadyExistsError(
          absl::StrCat("rank ", rank.value(), " is taken by ", worker->address));
    }
  }
  return roster.CheckWish(wish);
}

std::string ValueOf(const Settings& settings, const std::string& name) {
  const auto it = settings.find(name);
  return it == settings.end() ? "nothing" : it->second;
}

absl::Status CheckSettings(const Settings& got, const Settings& expected, const Roster& roster) {
  Settings all = expected;
  all.insert(got.begin(), got.end());
  for (const auto& [name, unused] : all) {
    const auto mine = got.find(name);
    const auto theirs = expected.find(name);
    const bool both = mine != got.end() && theirs != expected.end();
    if (both && mine->second == theirs->second) continue;
    return absl::InvalidArgumentError(absl::StrCat("setting '", name, "': got ", ValueOf(got, name),
                                                   ", expected ", ValueOf(expected, name), " (",
                                                   NameOf(*roster.Workers().front()), ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckThreads(uint32_t got, const Roster& roster) {
  for (const Participant* worker : roster.Workers()) {
    if (got == 0 || worker->threads == 0 || static_cast<uint32_t>(worker->threads) == got) continue;
    return absl::InvalidArgumentError(absl::StrCat("threads: got ", got, ", expected ",
                                                   worker->threads, " (", NameOf(*worker), ")"));
  }
  return absl::OkStatus();
}

absl::Status FirstError(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  return absl::OkStatus();
}

}  // namespace

Settings SettingsOf(const v1::Hello& hello) {
  return {hello.settings().begin(), hello.settings().end()};
}

absl::Status CheckHello(const v1::Hello& hello, const Roster& roster, const Settings& settings) {
  absl::Status status = CheckProtocol(hello.protocol(), hello.version());
  if (!status.ok()) return status;
  status = CheckTexts(hello);
  if (!status.ok()) return status;
  status = FirstError({CheckIncarnation(Incarnation(hello.incarnation()), roster),
                       CheckWorldSize(hello.world_size(), roster.size()),
                       CheckRanks(hello, roster.size()), CheckRoom(roster)});
  if (!status.ok()) return status;
  status = FirstError({CheckWish(hello, roster), CheckAddress(hello.address(), roster)});
  if (!status.ok() || roster.Workers().empty()) return status;
  return FirstError(
      {CheckSettings(SettingsOf(hello), settings, roster), CheckThreads(hello.threads(), roster)});
}

absl::Status CheckKeeping(const v1::Hello& hello) {
  if (hello.cannot_checkpoint().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--run-dir: got a run without checkpoints: ",
                                                 Shortened(hello.cannot_checkpoint(), kMostCause)));
}

absl::Status CheckOffer(const v1::Offer& offer, const Roster& roster) {
  absl::Status status = CheckProtocol(offer.protocol(), offer.version());
  if (!status.ok()) return status;
  status = CheckIncarnation(Incarnation(offer.incarnation()), roster);
  if (!status.ok()) return status;
  if (!roster.HasAllAggregators()) return CheckAddress(offer.address(), roster);
  return absl::FailedPreconditionError(
      absl::StrCat("the run has all its aggregators: got one more, expected ",
                   roster.size().aggregators, " (--aggregators of the coordinator)"));
}

}  // namespace gradwire
