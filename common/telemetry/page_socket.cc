#include "common/telemetry/page_socket.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {

namespace {

constexpr absl::Duration kLookEach = absl::Seconds(1);

// Each client must show a certificate. Sessions are not resumed, so each certificate is checked.
void AskForCertificates(SSL_CTX* context, const std::string& ca) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A browser uses this to choose among its certificates.
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(ca.c_str()));
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context, 0);
  // The rest of an answer moves in memory when parts of it are sent.
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
  std::string stamp = Stamp();  // first: a change while the files are read causes another read
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
      spdlog::warn("pages keep their previous certificate: {}", std::string(taken.message()));
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

namespace {

int CappedSize(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

}  // namespace

void PageSocket::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

PageSocket::PageSocket(UniqueFd socket, ssl_ctx_st* context)
    : socket_(std::move(socket)), events_(POLLIN) {
  if (context == nullptr) return;
  ssl_.reset(SSL_new(context));
  if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), socket_.get()) != 1) {
    ssl_.reset();
    socket_.Reset();  // never continues without TLS
    return;
  }
  SSL_set_accept_state(ssl_.get());
}

ssize_t PageSocket::Receive(char* bytes, size_t size) {
  if (ssl_ == nullptr) return PlainResult(recv(socket_.get(), bytes, size, 0), POLLIN);
  ERR_clear_error();
  return TlsResult(SSL_read(ssl_.get(), bytes, CappedSize(size)));
}

ssize_t PageSocket::Send(const char* bytes, size_t size) {
  if (ssl_ == nullptr) return PlainResult(send(socket_.get(), bytes, size, MSG_NOSIGNAL), POLLOUT);
  ERR_clear_error();
  return TlsResult(SSL_write(ssl_.get(), bytes, CappedSize(size)));
}

void PageSocket::EndSending() {
  if (ssl_ != nullptr) SSL_shutdown(ssl_.get());
  ssl_.reset();
  shutdown(socket_.get(), SHUT_WR);
  events_ = POLLIN;
}

ssize_t PageSocket::PlainResult(ssize_t moved, short events) {
  if (moved >= 0) return moved;
  events_ = events;
  return errno == EAGAIN || errno == EINTR ? kLater : kOver;
}

ssize_t PageSocket::TlsResult(int result) {
  if (result > 0) return result;
  const int why = SSL_get_error(ssl_.get(), result);
  if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return kOver;
  events_ = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
  return kLater;
}

}  // namespace gradwire
