#include "absl/strings/str_cat.h"
#include "cli/terminal/commands.h"
#include "common/options/security_options.h"
#include "common/rpc/security.h"

namespace gradwire {
namespace {

constexpr char kStatusProgram[] = "gradwire status";

constexpr char kStatusDescription[] =
    "Shows the state of a run, from its coordinator: ranks, step, phases of the last step, "
    "slowest\n"
    "rank, lost workers. ADDRESS is the coordinator's --metrics, which gradwire launch prints "
    "when\n"
    "it starts; the default is 127.0.0.1:9400.";

constexpr char kStatusFooter[] =
    "A coordinator with --http-token answers only if you give its --token-file. A coordinator "
    "with\n"
    "TLS answers only if you give a certificate that its CA signed, unless it has --plain-http.\n"
    "--json prints everything; with --watch, it prints one line per second. This command ignores\n"
    "GRADWIRE_JSON, which other commands use.\n"
    "\n"
    "Exit: 0 shown, or the watched run has ended; 1 another program answers at this address;\n"
    "2 wrong usage; 75 no answer.";

absl::Status SetAddress(const std::vector<std::string>& addresses, std::string* coordinator) {
  if (addresses.empty()) return absl::OkStatus();
  if (addresses.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", addresses.size(), " addresses, expected one HOST:PORT"));
  }
  return ConnectAddress(coordinator).set(addresses.front());
}

nlohmann::ordered_json TlsFiles(const SecurityOptions& security) {
  if (!EncryptsPages(security)) return nullptr;
  return {{"cert", security.tls_cert}, {"key", security.tls_key}, {"ca", security.tls_ca}};
}

}  // namespace

absl::StatusOr<Parsed<ScriptCall>> ParseStatusOptions(const std::vector<std::string>& args,
                                                      const Environment& environment) {
  std::string coordinator = "127.0.0.1:9400";  // its --metrics address
  bool watch = false;
  bool json = false;
  SecurityOptions security;
  OptionParser parser(kStatusProgram, kStatusDescription, {"status"});
  parser.Group("Status");
  parser.Add("watch", "true|false", "repeat every second, until the run ends or Ctrl-C",
             Switch(&watch));
  parser.Add("json", "true|false", "print the coordinator's answer as JSON", Switch(&json));
  parser.Add("token-file", "FILE", "token of the run, for a coordinator with --http-token",
             Text(&security.token_file));
  parser.Add("tls-cert", "FILE",
             "certificate signed by the coordinator's CA, for a coordinator with TLS",
             Text(&security.tls_cert));
  parser.Add("tls-key", "FILE", "key of that certificate", Text(&security.tls_key));
  parser.Add("tls-ca", "FILE", "CA of the coordinator's certificate", Text(&security.tls_ca));
  parser.Add("plain-http", "true|false",
             "the coordinator has --plain-http: its pages are not encrypted",
             Switch(&security.plain_http));
  parser.TakeOperands("ADDRESS", "HOST:PORT of the coordinator's --metrics [127.0.0.1:9400]");
  parser.Footer(kStatusFooter);
  Environment own = environment;
  own.erase(VariableOf("json"));
  Parsed<ScriptCall> parsed;
  absl::Status status = parser.Parse(args, own, {}, &parsed);
  if (status.ok() && parsed.print.empty()) status = SetAddress(parser.operands(), &coordinator);
  if (status.ok() && parsed.print.empty() && EncryptsPages(security)) {
    status = CheckCertificates(security);
  }
  if (!status.ok()) return status;
  parsed.options.name = "cli/status/status.py";
  parsed.options.data = {{"coordinator", coordinator},
                         {"watch", watch},
                         {"json", json},
                         {"token_file", security.token_file},
                         {"tls", TlsFiles(security)}};
  return parsed;
}

int StatusCommand(const std::vector<std::string>& args, const Environment& environment) {
  return RunCommand(kStatusProgram, ParseStatusOptions(args, environment), environment);
}

}  // namespace gradwire
