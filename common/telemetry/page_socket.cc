#include "common/telemetry/page_socket.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace gradwire {
namespace {

int CappedSize(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

}  // namespace

void PageSocket::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

PageSocket::PageSocket(Descriptor socket, ssl_ctx_st* context)
    : socket_(std::move(socket)), events_(POLLIN) {
  if (context == nullptr) return;
  ssl_.reset(SSL_new(context));
  if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), socket_.get()) != 1) {
    ssl_.reset();
    socket_.Reset();  // never plain in its place
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
