#include "common/base/host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"
#include "common/base/control_groups.h"

// Older headers lack it; Linux has it since 5.1.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace gradwire {

namespace {

// Reads microseconds of CPU time per period. Without a limit the file has "max" (version 2) or -1
// (version 1); the result is then not above 0.
double Number(std::istream&& file) {
  double number = 0;
  return file >> number ? number : 0;
}

double CoresOf(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period)) {
    quota = Number(std::ifstream(folder + "/cpu.cfs_quota_us"));
    period = Number(std::ifstream(folder + "/cpu.cfs_period_us"));
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

std::string HostId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (!id.empty()) return id;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// The cores that this process is bound to, or all: their number and names ("0,1,4").
struct BoundCores {
  int count = 0;
  std::string names;
};

BoundCores OwnCores() {
  cpu_set_t cores;
  // Fails if the machine has more cores than the set can hold.
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) {
    return {std::max(1, static_cast<int>(std::thread::hardware_concurrency())), "all"};
  }
  BoundCores own;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    absl::StrAppend(&own.names, own.count++ > 0 ? "," : "", core);
  }
  return own;
}

// Returns the quota if it is less than `cores`.
std::optional<CpuQuota> OwnQuota(int cores) {
  std::optional<CpuQuota> quota = FindCpuQuota(OwnGroups());
  if (quota && quota->cores >= cores) quota.reset();
  return quota;
}

// Group names are relative to it: in containers, all may be "/".
std::string GroupNamespace() {
  char name[64] = {};
  return readlink("/proc/self/ns/cgroup", name, sizeof(name) - 1) > 0 ? name : "";
}

}  // namespace

std::optional<CpuQuota> FindCpuQuota(const std::string& own_groups, const std::string& mounted) {
  std::optional<CpuQuota> tightest;
  for (const ControlGroup& group : GroupsOf(own_groups, "cpu", mounted)) {
    const double cores = CoresOf(group.folder());
    if (cores > 0 && (!tightest || cores < tightest->cores)) tightest = {cores, group.name};
  }
  return tightest;
}

int UsableCores() {
  const int cores = std::max(1, OwnCores().count);
  const std::optional<CpuQuota> quota = OwnQuota(cores);
  return quota ? std::max(1, static_cast<int>(quota->cores)) : cores;
}

// The kernel's VmHWM. getrusage would include what the process held before it replaced itself.
uint64_t PeakMemoryBytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    uint64_t kibibytes = 0;
    if (word == "VmHWM:" && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

std::string CoresId() {
  const BoundCores cores = OwnCores();
  const std::optional<CpuQuota> quota = OwnQuota(cores.count);
  const std::string group = quota ? absl::StrCat(" of ", GroupNamespace(), quota->group) : "";
  return absl::StrCat(HostId(), " cores ", cores.names, group);
}

namespace {

// Returns why this process cannot share memory; empty if it can.
std::string WhyNoSharedMemory() {
  if (prctl(PR_GET_DUMPABLE) != 1) return "other processes cannot open this one's files";
  const UniqueFd file(memfd_create("gradwire-try", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) return absl::StrCat("memfd_create: ", std::strerror(errno));
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0) return "";
  return absl::StrCat("memory cannot be sealed (Linux 5.1 can): ", std::strerror(errno));
}

}  // namespace

std::string MemoryId(std::string* why_not) {
  std::string reason = WhyNoSharedMemory();
  std::string id = absl::StrCat(HostId(), " user ", geteuid());
  for (const char* name : {"pid", "user", "net"}) {
    std::error_code error;
    const auto link = std::filesystem::read_symlink(absl::StrCat("/proc/self/ns/", name), error);
    if (error && reason.empty())
      reason = absl::StrCat("/proc/self/ns/", name, ": ", error.message());
    absl::StrAppend(&id, " ", link.string());
  }
  if (!reason.empty()) id.clear();
  if (why_not != nullptr) *why_not = std::move(reason);
  return id;
}

namespace {

constexpr char kMatrixProduct[] = "sgemm_";
constexpr char kOldestCore[] = "Prescott";

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// The BLAS that the process already uses comes first: libtorch's, or a preloaded one.
void* MatrixProduct(const Library& library) {
  void* const product = dlsym(RTLD_DEFAULT, kMatrixProduct);
  return product != nullptr ? product : dlsym(library.get(), kMatrixProduct);
}

template <typename Result>
Result CallOr(Result otherwise, const Library& library, const char* name) {
  const auto function = reinterpret_cast<Result (*)()>(dlsym(library.get(), name));
  return function != nullptr ? function() : otherwise;
}

std::string PathOfSymbol(void* symbol) {
  Dl_info info = {};
  if (dladdr(symbol, &info) == 0) return "";
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
  return error ? info.dli_fname : path.string();
}

// Returns OpenBLAS's newest kernels for this CPU; "" if OpenBLAS selects them itself.
std::string BestCore() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return "";
}

std::string VariantName(int parallel) {
  return parallel == 0 ? "serial" : parallel == 1 ? "pthread" : "openmp";
}

// Has no name if it is not OpenBLAS. Its configuration begins with "OpenBLAS 0.3.21 ".
Blas DescribeOpenBlas(const Library& library) {
  const char* const config = CallOr<const char*>(nullptr, library, "openblas_get_config");
  if (config == nullptr) return {};
  const std::string core = CallOr<const char*>("", library, "openblas_get_corename");
  const std::string variant = VariantName(CallOr(0, library, "openblas_get_parallel"));
  std::vector<std::string> words = absl::StrSplit(config, absl::MaxSplits(' ', 2));
  words.resize(2);
  return {absl::StrCat(words[0], " ", words[1], " (", variant, ", ", core, ")"), "",
          CoreWarning(core, BestCore())};
}

// Netlib's file name has the version of its interface; those of Debian's other libraries do not.
bool IsReference(const std::string& path) {
  return absl::StartsWith(std::filesystem::path(path).filename().string(), "libblas.so.3.");
}

std::string ReferenceWarning(const std::string& path) {
  return absl::StrCat("libtorch multiplies matrices with the reference BLAS, ", path,
                      ", which is about ten times slower than OpenBLAS: apt-get install ",
                      kBlasPackage);
}

}  // namespace

absl::StatusOr<Blas> FindBlas(const std::string& file) {
  const Library library(dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (library == nullptr) return absl::NotFoundError(dlerror());
  void* const product = MatrixProduct(library);
  if (product == nullptr) {
    return absl::NotFoundError(absl::StrCat(file, " has no ", kMatrixProduct));
  }
  const std::string path = PathOfSymbol(product);
  const Library owner(dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (owner == nullptr) return absl::NotFoundError(dlerror());
  Blas blas = DescribeOpenBlas(owner);
  blas.path = path;
  if (!blas.name.empty()) return blas;
  blas.name = IsReference(path) ? "reference BLAS" : "unknown BLAS";
  if (IsReference(path)) blas.warning = ReferenceWarning(path);
  return blas;
}

std::string Describe(const Blas& blas) { return absl::StrCat(blas.name, ", ", blas.path); }

std::string CoreWarning(const std::string& core, const std::string& best) {
  if (core != kOldestCore || best.empty()) return "";
  return absl::StrCat("OpenBLAS does not know this CPU and uses its oldest ", "kernels (", core,
                      "), at less than half the speed: export ", "OPENBLAS_CORETYPE=", best);
}

void SetBlasThreads(int threads) {
  void* const symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (symbol != nullptr) reinterpret_cast<void (*)(int)>(symbol)(threads);
}

}  // namespace gradwire
