#include "common/options/security_options.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/fold/kernels.h"
#include "common/options/option_parser.h"
#include "common/wire/xxh3.h"

namespace gradwire {

bool WantsTls(const SecurityOptions& options) {
  return !options.tls_cert.empty() || !options.tls_key.empty() || !options.tls_ca.empty();
}

bool EncryptsPages(const SecurityOptions& options) {
  return WantsTls(options) && !options.plain_http;
}

bool MayBePublic(const SecurityOptions& options) { return WantsTls(options) || options.insecure; }

void AddSecurityOptions(SecurityOptions* options, OptionParser* parser) {
  parser->Group("Security");
  parser->Add("token-file", "FILE", "a secret that all calls of the run carry, the same everywhere",
              Text(&options->token_file), Agreement::kCompared);
  parser->Add("tls-cert", "FILE",
              "encrypt all calls: this host's certificate (PEM), with the names and addresses by "
              "which others reach it; read again when it changes",
              Text(&options->tls_cert));
  parser->Add("tls-key", "FILE", "the certificate's key", Text(&options->tls_key));
  parser->Add("tls-ca", "FILE", "the CA that has signed the certificates of all in the run",
              Text(&options->tls_ca));
  parser->Add("plain-http", "true|false",
              "with --tls-cert: pages and metrics are not encrypted, and ask for no certificate",
              Switch(&options->plain_http));
  parser->Add("insecure", "true|false",
              "without --tls-cert: listen also where anybody could connect, beyond this host and "
              "private networks",
              Switch(&options->insecure));
}

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
