#include "cli/status/http_client.h"

#include <curl/curl.h>

#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/address.h"

namespace gradwire {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

// libcurl's callback for a piece of the body; what it has not taken ends the exchange.
size_t Append(char* data, size_t /*one*/, size_t size, void* body) {
  auto* text = static_cast<std::string*>(body);
  if (text->size() + size > kMaxBytes) return 0;
  text->append(data, size);
  return size;
}

void Prepare(CURL* handle, const std::string& url, absl::Duration timeout, std::string* body) {
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(handle, CURLOPT_PROXY, "");  // http_proxy is not for a coordinator
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(timeout)));
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, body);
}

template <typename T>
T Info(CURL* handle, CURLINFO info) {
  T value = 0;
  curl_easy_getinfo(handle, info, &value);
  return value;
}

// "connection refused", "couldn't resolve host name".
absl::Status Unreachable(CURL* handle, CURLcode code) {
  const long error = Info<long>(handle, CURLINFO_OS_ERRNO);
  const bool has_errno = code == CURLE_COULDNT_CONNECT && error != 0;
  return absl::UnavailableError(absl::AsciiStrToLower(
      has_errno ? std::strerror(static_cast<int>(error)) : curl_easy_strerror(code)));
}

absl::Status Check(CURL* handle, CURLcode code, absl::string_view path, absl::Duration timeout,
                   size_t got) {
  switch (code) {
    case CURLE_OK:
      break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return Unreachable(handle, code);
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(
          absl::StrCat("no whole answer within ", absl::FormatDuration(timeout)));
    case CURLE_WRITE_ERROR:
      return absl::FailedPreconditionError("the answer is longer than 64 MiB");
    case CURLE_PARTIAL_FILE:
      return absl::FailedPreconditionError(
          absl::StrCat("the answer ended after ", got, " of ",
                       Info<curl_off_t>(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T), " bytes"));
    default:
      return absl::FailedPreconditionError("the answer is not HTTP");
  }
  const long answer = Info<long>(handle, CURLINFO_RESPONSE_CODE);
  if (answer == 200) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("got ", answer, " for ", path, ", expected 200"));
}

}  // namespace

absl::StatusOr<std::string> HttpGet(absl::string_view address, absl::string_view path,
                                    absl::Duration timeout) {
  const absl::StatusOr<HostPort> place = ParseHostPort(address);
  if (!place.ok()) return place.status();
  const Handle handle(curl_easy_init(), &curl_easy_cleanup);
  if (handle == nullptr) return absl::InternalError("libcurl does not start");
  std::string body;
  Prepare(handle.get(), absl::StrCat("http://", ToString(*place), path), timeout, &body);
  const CURLcode code = curl_easy_perform(handle.get());
  const absl::Status status = Check(handle.get(), code, path, timeout, body.size());
  if (!status.ok()) return status;
  return body;
}

}  // namespace gradwire
