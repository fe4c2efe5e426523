#include "cli/bench/bench_runner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/bench/cpu_sampler.h"
#include "cli/launch/launch_plan.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

constexpr char kPython[] = "/usr/bin/python3";
constexpr char kCoordinator[] = "gradwire-coordinator";
constexpr absl::Duration kTimeToListen = absl::Seconds(30);
constexpr absl::Duration kTimeToSayVersion = absl::Seconds(60);

// A port of this machine on which nothing listens now.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = bind(fd, generic, size) == 0 && getsockname(fd, generic, &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

}  // namespace

BenchRunner::BenchRunner(const BenchOptions& options, const Environment& environment,
                         std::function<bool()> stopped)
    : options_(options),
      stopped_(std::move(stopped)),
      program_dir_(ProgramDir()),
      hosts_(options.hosts, environment, stopped_) {}

absl::Status BenchRunner::Prepare() {
  if (scratch_.path().empty()) {
    return absl::FailedPreconditionError("cannot make a folder for temporary files (TMPDIR)");
  }
  absl::Status status = hosts_.Up(options_.workers + 1, options_.rate);
  if (status.ok() && options_.peers) status = FindTorch();
  return status;
}

absl::Status BenchRunner::FindTorch() {
  const absl::StatusOr<std::string> version = RunHere(
      "python3", {kPython, "-c", "import torch.distributed, numpy; print(torch.__version__)"});
  if (absl::IsCancelled(version.status())) return version.status();
  if (!version.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--peers needs PyTorch; run: apt-get install python3-torch\n  ",
                     version.status().message()));
  }
  torch_version_ = std::string(absl::StripAsciiWhitespace(*version));
  return absl::OkStatus();
}

absl::StatusOr<BenchRunner::Outputs> BenchRunner::RunWithCoordinator(const ArgvAtAddress& argv) {
  JobGroup group(stopped_);
  const absl::StatusOr<std::string> address = StartCoordinator(&group);
  if (!address.ok()) return address.status();
  CpuSampler cpu(kCoordinator);
  cpu.Sample(group.pid(0));
  absl::Status status = StartRanks([&](int rank) { return argv(rank, *address); }, &group);
  if (!status.ok()) return status;
  auto ranks = group.Finish(Deadline(), [&] { cpu.Sample(group.pid(0)); });
  if (!ranks.ok()) return ranks.status();
  return Outputs{*std::move(ranks), cpu.seconds()};
}

absl::StatusOr<BenchRunner::Outputs> BenchRunner::RunAlone(const ArgvOfRank& argv) {
  JobGroup group(stopped_);
  absl::Status status = StartRanks(argv, &group);
  if (!status.ok()) return status;
  auto ranks = group.Finish(Deadline());
  if (!ranks.ok()) return ranks.status();
  return Outputs{*std::move(ranks), {}};
}

absl::StatusOr<BenchRunner::Outputs> BenchRunner::RunPeers(const std::string& script,
                                                           const Argv& args) {
  const std::string path = LibexecPath(absl::StrCat("peers/", script));
  if (!std::filesystem::exists(path)) {
    return absl::NotFoundError(
        absl::StrCat("no '", path, "'; it is built and installed together with gradwire"));
  }
  const int port = hosts_.local() ? FreePort() : options_.port + 1;
  const std::string master = absl::StrCat(hosts_.address(0), ":", port);
  return RunAlone([&](int rank) {
    Argv argv = {kPython,        path,
                 "--rank",       absl::StrCat(rank),
                 "--world-size", absl::StrCat(options_.workers),
                 "--master",     master};
    argv.insert(argv.end(), args.begin(), args.end());
    return argv;
  });
}

absl::StatusOr<std::string> BenchRunner::StartCoordinator(JobGroup* group) {
  const int host = options_.workers;
  const std::string port_file = absl::StrCat(scratch_.path(), "/ports");
  const std::string listen =
      absl::StrCat(hosts_.address(host), ":", hosts_.local() ? 0 : options_.port);
  Argv argv = {BinPath(kCoordinator), "--listen",  listen, "--world-size",
               absl::StrCat(host),    "--metrics", "off"};
  if (hosts_.local()) {
    std::error_code ignored;
    std::filesystem::remove(port_file, ignored);  // of the set before
    argv.insert(argv.end(), {"--port-file", port_file});
  }
  absl::Status status =
      group->Start({"coordinator", hosts_.On(host, std::move(argv)), /*serves=*/true});
  if (!status.ok()) return status;
  // Ranks on other hosts try again until it listens.
  return hosts_.local() ? AwaitAddress(group, port_file) : listen;
}

absl::StatusOr<std::string> BenchRunner::AwaitAddress(JobGroup* group,
                                                      const std::string& port_file) {
  std::string address;
  const absl::Status status =
      group->RunUntil([&] { return !(address = CoordinatorAddress(ReadFile(port_file))).empty(); },
                      SteadyNow() + kTimeToListen);
  if (!status.ok()) return status;
  return address;
}

absl::Status BenchRunner::StartRanks(const ArgvOfRank& argv, JobGroup* group) {
  for (int rank = 0; rank < options_.workers; ++rank) {
    absl::Status status = group->Start({absl::StrCat("rank ", rank), hosts_.On(rank, argv(rank))});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Time BenchRunner::Deadline() const {
  return SteadyNow() + absl::Seconds(options_.timeout_seconds);
}

std::string BenchRunner::LibexecPath(const std::string& program) const {
  const std::filesystem::path parent = std::filesystem::path(program_dir_).parent_path();
  return (parent / "libexec" / "gradwire" / program).string();
}

std::string BenchRunner::BinPath(const std::string& program) const {
  return absl::StrCat(program_dir_, "/", program);
}

absl::StatusOr<std::string> BenchRunner::RunHere(const std::string& name, Argv argv) const {
  // Host 0's environment, but not its network.
  Command command = hosts_.On(0, {});
  command.argv = std::move(argv);
  return RunJob({name, std::move(command)}, kTimeToSayVersion, stopped_);
}

}  // namespace gradwire
