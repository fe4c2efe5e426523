#ifndef GRADWIRE_COMMON_BASE_HOST_H_
#define GRADWIRE_COMMON_BASE_HOST_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace gradwire {

// A limit of CPU time, as containers have (docker --cpus, Kubernetes' limits).
struct CpuQuota {
  double cores = 0;   // that may be busy on average
  std::string group;  // the control group whose members share them
};

// The tightest of a process's control groups and of those around them; none if there is no limit.
// `own_groups`: the process's /proc/PID/cgroup; `mounted`: where the hierarchies are, of
// version 1, of version 2, or of both. What cannot be read limits nothing.
std::optional<CpuQuota> FindCpuQuota(const std::string& own_groups,
                                     const std::string& mounted = "/sys/fs/cgroup");

// Cores that this process may keep busy, 1 or more: those that it is bound to (mpirun, Slurm,
// taskset), or fewer where its control group limits CPU time (containers).
int UsableCores();

// Equal for processes that share those cores, different for others. It names the id that Linux
// draws when it starts, which containers and network namespaces of one machine share (or else the
// host's name), the cores, and the control group if that limits. So processes that a launcher
// bound to cores of their own share none.
std::string CoresId();

// The Debian package of the BLAS that Gradwire is made for.
inline constexpr char kBlasPackage[] = "libopenblas0-openmp";

// The library that multiplies matrices for libtorch.
struct Blas {
  std::string name;     // "OpenBLAS 0.3.21 (openmp, SkylakeX)", "reference BLAS", "unknown BLAS"
  std::string path;     // of its file, links resolved
  std::string warning;  // why it is slow here and what to do; "" if it is not known to be
};

// The one that this process computes on; without libtorch in the process, the one that
// libtorch would get here: what the loader finds as `library`. It may load that for a
// moment, and with it start OpenBLAS's threads. NotFound, with the loader's reason, when
// there is none.
absl::StatusOr<Blas> FindBlas(const std::string& library = "libblas.so.3");

// "OpenBLAS 0.3.21 (openmp, SkylakeX), /usr/lib/…/libblas.so.3".
std::string Describe(const Blas& blas);

// Why an OpenBLAS with the kernels `core` is slow on a CPU that could run `best`, and what to
// set; "" if it is not. A CPU that is newer than the library gets its oldest kernels.
std::string CoreWarning(const std::string& core, const std::string& best);

// Lets an OpenBLAS that this process has loaded compute with `threads` threads, whatever
// OPENBLAS_NUM_THREADS says; another BLAS keeps its own number. torch::set_num_threads reaches
// the openmp variant, but not the pthread one. Call on the thread that computes, and
// torch::set_num_threads after it.
void SetBlasThreads(int threads);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_HOST_H_
