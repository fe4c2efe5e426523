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
  parser->Add("token-file", "FILE", "file with the secret that all calls of the run carry",
              Text(&options->token_file), Agreement::kCompared);
  parser->Add("tls-cert", "FILE",
              "encrypt all calls: certificate (PEM) with all names and addresses of this host; "
              "read again when it changes",
              Text(&options->tls_cert));
  parser->Add("tls-key", "FILE", "key of the certificate", Text(&options->tls_key));
  parser->Add("tls-ca", "FILE", "certificate of the CA that signed all certificates of the run",
              Text(&options->tls_ca));
  parser->Add("plain-http", "true|false",
              "with --tls-cert: serve pages and metrics unencrypted, without client certificates",
              Switch(&options->plain_http));
  parser->Add("insecure", "true|false",
              "without --tls-cert: also listen on public addresses, beyond this host and private "
              "networks",
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
              "instruction set of sums and checksums, with the same result: avx512, avx2, baseline",
              WithDefault(Choice(name, {"avx512", "avx2", "baseline"}), "the best available"));
}

absl::Status UseInstructions(absl::string_view name) {
  if (name.empty()) return absl::OkStatus();
  const auto sets = SupportedKernels();
  const auto set = std::find_if(sets.begin(), sets.end(),
                                [name](const KernelSet& each) { return each.name == name; });
  if (set == sets.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--instructions: got '", name,
        "', expected one that this processor supports: ", absl::StrJoin(SupportedNames(), ", ")));
  }
  spdlog::info("sums and checksums use instruction set {}", set->name);
  UseKernels(*set);
  for (const Xxh3Kernel* kernel : Xxh3Kernels()) {
    if (kernel->name == name) UseXxh3(*kernel);
  }
  return absl::OkStatus();
}

}  // namespace gradwire
