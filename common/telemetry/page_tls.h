#ifndef GRADWIRE_COMMON_TELEMETRY_PAGE_TLS_H_
#define GRADWIRE_COMMON_TELEMETRY_PAGE_TLS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/seldom.h"
#include "common/rpc/certificates.h"

namespace gradwire {

// How pages are encrypted: as calls are, both ends show a certificate of the run's CA. The files
// are looked at once a second at most; new ones count for connections that come from then on, and
// while they do not fit together the last that did are used. Not thread-safe.
class PageTls {
 public:
  // Errors: those of CheckCertificates.
  static absl::StatusOr<std::unique_ptr<PageTls>> Read(const SecurityOptions& options);
  PageTls(const PageTls&) = delete;
  PageTls& operator=(const PageTls&) = delete;

  // For the next connection.
  ssl_ctx_st* Context();

 private:
  explicit PageTls(const SecurityOptions& options) : options_(options) {}
  absl::Status Take();
  // Differs once one of the files is another one.
  std::string Stamp() const;

  const SecurityOptions options_;
  TlsContext context_;
  std::string stamp_;  // of the files that it was made of
  absl::Time next_look_;
  Seldom log_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_PAGE_TLS_H_
