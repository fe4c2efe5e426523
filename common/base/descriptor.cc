#include "common/base/descriptor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace gradwire {
namespace {

// The system may allow a billion, of which tables are made here and there.
constexpr rlim_t kEnough = 65536;

}  // namespace

void Descriptor::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

size_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;  // what is usual
  return static_cast<size_t>(std::min(limit.rlim_cur, kEnough));
}

}  // namespace gradwire
