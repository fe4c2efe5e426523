#include "library/group_settings.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/base/token.h"
#include "common/options/launch_environment.h"
#include "common/options/option_parser.h"
#include "common/rpc/reach.h"
#include "common/wire/layout.h"
#include "worker/options/choices.h"
#include "worker/options/traits.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

constexpr int kMaxRanks = 65535;

// Options whose type differs between OptionParser and GroupSettings.
struct Numbers {
  double connect_timeout = 30;  // seconds
  double step_timeout = 300;
  int64_t compress_warmup = 0;
};

void AddOptions(GroupSettings* settings, Numbers* numbers, OptionParser* parser) {
  parser->Add("coordinator", "HOST:PORT", "", ConnectAddress(&settings->coordinator));
  parser->Add("rank", "R", "", Integer(&settings->rank, 0, kMaxRanks - 1));
  parser->Add("world-size", "N", "", Integer(&settings->world_size, 1, kMaxRanks));
  parser->Add("local-rank", "R", "", Integer(&settings->local_rank, 0, kMaxRanks - 1));
  parser->Add("host-coordinator", "true|false", "", Switch(&settings->host_coordinator));
  parser->Add("coordinator-metrics", "HOST:PORT", "",
              ListenAddressOrOff(&settings->coordinator_metrics));
  parser->Add("backend", "NAME", "", Choice(&settings->backend, NamesOf(BackendChoicesWithAuto())));
  parser->Add("wire", "TYPE", "", Choice(&settings->wire, WireNames()));
  parser->Add("compress", "CODEC", "", Text(&settings->compress));
  parser->Add("compress-warmup", "N", "", Integer(&numbers->compress_warmup, 0));
  parser->Add("shared-memory", "auto|off", "",
              Choice(&settings->shared_memory, SharedMemoryChoices()));
  parser->Add("connections", "N", "", Integer(&settings->connections, 1, 64));
  parser->Add("metrics", "HOST:PORT", "", ListenAddressOrOff(&settings->metrics));
  parser->Add("trace", "FILE", "", Text(&settings->trace));
  parser->Add("listen", "HOST:PORT", "", ListenAddress(&settings->listen));
  parser->Add("advertise", "HOST", "", Text(&settings->advertise));
  parser->Add("connect-timeout-seconds", "SECONDS", "", RealAbove(&numbers->connect_timeout, 0));
  parser->Add("step-timeout-seconds", "SECONDS", "", RealAbove(&numbers->step_timeout, 0));
  AddSecurityOptions(&settings->security, parser);
}

// Returns the fields that were set, as flags: the layer with the highest priority.
std::vector<std::string> FlagsOf(const GroupOptions& options) {
  std::vector<std::string> flags;
  const auto add = [&flags](bool set, const char* name, const auto& value) {
    if (set) flags.push_back(absl::StrCat("--", name, "=", value));
  };
  const auto add_text = [&add](const char* name, const std::string& value) {
    add(!value.empty(), name, value);
  };
  add_text("coordinator", options.coordinator);
  add(options.rank != -1, "rank", options.rank);
  add(options.world_size != 0, "world-size", options.world_size);
  add(options.local_rank != -1, "local-rank", options.local_rank);
  add(!options.host_coordinator, "host-coordinator", "false");
  add_text("coordinator-metrics", options.coordinator_metrics);
  add_text("backend", options.backend);
  add_text("shared-memory", options.shared_memory);
  add_text("wire", options.wire);
  add_text("compress", options.compress);
  add(options.compress_warmup != 0, "compress-warmup", options.compress_warmup);
  add(options.connections != 0, "connections", options.connections);
  add_text("metrics", options.metrics);
  add_text("trace", options.trace);
  add_text("listen", options.listen);
  add_text("advertise", options.advertise);
  add(options.connect_timeout_seconds != 0, "connect-timeout-seconds",
      options.connect_timeout_seconds);
  add(options.step_timeout_seconds != 0, "step-timeout-seconds", options.step_timeout_seconds);
  add_text("token-file", options.token_file);
  add_text("tls-cert", options.tls_cert);
  add_text("tls-key", options.tls_key);
  add_text("tls-ca", options.tls_ca);
  add(options.insecure, "insecure", "true");
  return flags;
}

std::string ProgramName() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).filename().string();
}

// A run of one rank needs no known address, secret or certificate.
void SettleAlone(bool coordinator_given, GroupSettings* settings) {
  if (coordinator_given || !settings->host_coordinator) return;
  if (settings->world_size == 0 && settings->rank <= 0) settings->world_size = 1;
  if (settings->world_size != 1) return;
  settings->rank = 0;
  settings->coordinator = "127.0.0.1:0";
  SecurityOptions& security = settings->security;
  security.tls_cert = security.tls_key = security.tls_ca = "";  // nothing leaves this host
  if (security.token_file.empty()) security.token = MakeToken();
}

absl::Status CheckCompression(const OptionParser& parser, const GroupSettings& settings) {
  const Compression& compression = settings.compression;
  const Source& warmup = parser.source("compress-warmup");
  if (warmup.layer != Layer::kDefault && !compression.has_warmup()) {
    return absl::InvalidArgumentError(absl::StrCat(
        warmup.name, ": got it without compress top-k or powersgd, expected both or neither"));
  }
  if (!compression.is_on()) return absl::OkStatus();
  const std::string got =
      absl::StrCat(parser.source("compress").name, ": got '", settings.compress, "' with ");
  if (parser.source("wire").layer != Layer::kDefault) {
    return absl::InvalidArgumentError(absl::StrCat(
        got, "wire ", settings.wire, " (", parser.source("wire").name, "), expected one of them"));
  }
  if (compression.has_factors() && !TraitsOfBackend(settings.backend).any_order) {
    return absl::InvalidArgumentError(absl::StrCat(
        got, "back end ", settings.backend, " (", parser.source("backend").name,
        "), expected another back end: this one needs the same order of exchanges on all ranks"));
  }
  if (compression.is_coded() && !TraitsOfBackend(settings.backend).codecs) {
    return absl::InvalidArgumentError(
        absl::StrCat(got, "back end ", settings.backend, " (", parser.source("backend").name,
                     "), expected auto, coordinator, sharded or memory, which decode"));
  }
  return absl::OkStatus();
}

// Settles the wire type, the compression and the back end.
absl::Status SettleWire(const OptionParser& parser, int64_t warmup, GroupSettings* settings) {
  const absl::StatusOr<Compression> compression = ParseCompression(settings->compress);
  if (!compression.ok()) return Annotate(compression.status(), parser.source("compress").name);
  settings->compression = *compression;
  settings->compression.warmup_steps = warmup;
  settings->backend = BackendFor(settings->backend, settings->connections, /*gathers=*/false);
  const absl::StatusOr<v1::DType> wire = ParseWire(settings->wire);
  if (!wire.ok()) return wire.status();
  settings->wire_dtype = compression->is_on() ? compression->dtype : *wire;
  return CheckCompression(parser, *settings);
}

}  // namespace

absl::StatusOr<GroupSettings> ReadGroupSettings(const GroupOptions& options,
                                                const Environment& environment) {
  GroupSettings settings;
  Numbers numbers;
  OptionParser parser("init_process_group", "", {"worker"});
  AddOptions(&settings, &numbers, &parser);
  parser.ShareSections(WorkerOptionNames());
  const LaunchEnvironment launcher = DetectLaunchEnvironment(environment);
  const absl::Status status = parser.Parse(FlagsOf(options), environment, launcher.values);
  if (!status.ok()) return status;
  if (settings.world_size > 0 && settings.rank >= settings.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        parser.source("rank").name, ": got '", settings.rank, "', expected a rank from 0 to ",
        settings.world_size - 1, ", because the world size is ", settings.world_size, " (",
        parser.source("world-size").name, ")"));
  }
  absl::Status wire = SettleWire(parser, numbers.compress_warmup, &settings);
  if (wire.ok()) wire = CheckWire(settings.backend, settings.wire, parser.source("wire").name);
  if (!wire.ok()) return wire;
  absl::Status connections =
      CheckConnections(settings.backend, settings.connections, parser.source("connections").name);
  if (!connections.ok()) return connections;
  absl::Status tls = CheckTls(settings.backend, WantsTls(settings.security));
  if (tls.ok()) tls = CheckReach("listen", settings.listen, settings.security);
  if (tls.ok()) tls = CheckReach("metrics", settings.metrics, settings.security);
  if (!tls.ok()) return tls;
  settings.name = options.name.empty() ? ProgramName() : options.name;
  if (settings.metrics == "off") settings.metrics.clear();
  settings.connect_timeout = absl::Seconds(numbers.connect_timeout);
  settings.step_timeout = absl::Seconds(numbers.step_timeout);
  SettleAlone(parser.source("coordinator").layer != Layer::kDefault, &settings);
  return settings;
}

}  // namespace gradwire
