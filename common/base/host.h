#ifndef GRADWIRE_COMMON_BASE_HOST_H_
#define GRADWIRE_COMMON_BASE_HOST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace gradwire {

// A limit of CPU time, as of containers (docker --cpus, Kubernetes' limits).
struct CpuQuota {
  double cores = 0;   // that may be busy on average
  std::string group;  // the control group that shares them
};

// Returns the tightest quota of a process's control groups and their ancestors; none if no limit is
// set. `own_groups`: the process's /proc/PID/cgroup; `mounted`: mount point of the hierarchies, of
// version 1, 2 or both. An unreadable file sets no limit.
std::optional<CpuQuota> FindCpuQuota(const std::string& own_groups,
                                     const std::string& mounted = "/sys/fs/cgroup");

// Returns the number of cores that this process may keep busy, at least 1: those that it is bound
// to (mpirun, Slurm, taskset), or fewer if its control group limits CPU time (containers).
int UsableCores();

// Returns the largest number of bytes of memory that this process has held at one time (its
// resident set) since it started its program. 0 if the system does not say.
uint64_t PeakMemoryBytes();

// Returns an id that is equal for processes that share those cores, and different for others. It
// consists of the id that Linux draws at boot (or else the host's name), which containers and
// network namespaces of one machine share, the cores, and the control group if that sets a limit.
// So processes that a launcher bound to separate cores have different ids.
std::string CoresId();

// Returns an id that is equal for processes that can open each other's files by /proc, and so map
// each other's memory: those of one user on one machine that share the namespaces of processes,
// users and networks. Containers usually have their own. Empty if this process cannot share memory:
// others cannot open its files, or the kernel lets it make no memory that can be sealed. Then
// `why_not` says so.
std::string MemoryId(std::string* why_not = nullptr);

// The Debian package of the BLAS for which Gradwire is tuned.
inline constexpr char kBlasPackage[] = "libopenblas0-openmp";

// The library with which libtorch multiplies matrices.
struct Blas {
  std::string name;     // "OpenBLAS 0.3.21 (openmp, SkylakeX)", "reference BLAS", "unknown BLAS"
  std::string path;     // of its file, with links resolved
  std::string warning;  // why it is slow here and what to do; "" if it is not
};

// Returns the BLAS that this process uses. Without libtorch in the process, returns the one that
// libtorch would use here: the loader's result for `library`. It may be loaded for a moment, which
// starts OpenBLAS's threads. NotFound, with the loader's reason, if no BLAS is found.
absl::StatusOr<Blas> FindBlas(const std::string& library = "libblas.so.3");

// Returns "OpenBLAS 0.3.21 (openmp, SkylakeX), /usr/lib/…/libblas.so.3".
std::string Describe(const Blas& blas);

// Returns why an OpenBLAS with the kernels `core` is slow on a CPU that could run `best`, and which
// variable to set; "" if it is not slow. A CPU newer than the library gets its oldest kernels.
std::string CoreWarning(const std::string& core, const std::string& best);

// Makes an OpenBLAS in this process compute with `threads` threads, regardless of
// OPENBLAS_NUM_THREADS; another BLAS keeps its own number. torch::set_num_threads works for the
// openmp variant but not for the pthread one. Call on the thread that computes, and call
// torch::set_num_threads after it.
void SetBlasThreads(int threads);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_HOST_H_
