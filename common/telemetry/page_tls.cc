#include "common/telemetry/page_tls.h"

#include <openssl/ssl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

constexpr absl::Duration kLookEach = absl::Seconds(1);

// Who connects has to show a certificate; no session is resumed, so each is looked at anew.
void AskForCertificates(SSL_CTX* context, const std::string& ca) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // By it a browser chooses among those that it has.
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(ca.c_str()));
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context, 0);
  // What is left of an answer moves as parts of it go.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageTls>> PageTls::Read(const SecurityOptions& options) {
  auto pages = absl::WrapUnique(new PageTls(options));
  if (absl::Status status = pages->Take(); !status.ok()) return status;
  pages->next_look_ = SteadyNow() + kLookEach;
  return pages;
}

absl::Status PageTls::Take() {
  std::string stamp = Stamp();  // first: what changes while they are read is read again
  absl::StatusOr<TlsContext> context = ReadCertificates(options_);
  if (!context.ok()) return context.status();
  AskForCertificates(context->get(), options_.tls_ca);
  context_ = *std::move(context);
  stamp_ = std::move(stamp);
  return absl::OkStatus();
}

ssl_ctx_st* PageTls::Context() {
  const absl::Time now = SteadyNow();
  if (now < next_look_) return context_.get();
  next_look_ = now + kLookEach;
  if (Stamp() == stamp_) return context_.get();
  if (absl::Status taken = Take(); !taken.ok()) {
    if (int left_out; log_.MayLog(&left_out)) {
      spdlog::warn("pages keep the certificate that they had: {}", std::string(taken.message()));
    }
  }
  return context_.get();
}

std::string PageTls::Stamp() const {
  std::string stamp;
  for (const std::string* path : {&options_.tls_cert, &options_.tls_key, &options_.tls_ca}) {
    struct stat file = {};
    if (stat(path->c_str(), &file) != 0) file = {};
    absl::StrAppend(&stamp, file.st_dev, ":", file.st_ino, ":", file.st_size, ":",
                    file.st_mtim.tv_sec, ".", file.st_mtim.tv_nsec, " ");
  }
  return stamp;
}

}  // namespace gradwire
