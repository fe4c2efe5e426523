#include "common/base/blas.h"

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gradwire {
namespace {

constexpr char kMatrixProduct[] = "sgemm_";
constexpr char kOldestCore[] = "Prescott";

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// What the process already computes with goes first: libtorch's, or one preloaded.
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

// The newest of OpenBLAS's kernels for this CPU; "" where it finds them itself.
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

// With no name if it is no OpenBLAS. Its configuration begins with "OpenBLAS 0.3.21 ".
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

// Netlib's file bears the version of its interface; Debian's other libraries do not.
bool IsReference(const std::string& path) {
  return absl::StartsWith(std::filesystem::path(path).filename().string(), "libblas.so.3.");
}

std::string ReferenceWarning(const std::string& path) {
  return absl::StrCat("matrices are multiplied by the reference BLAS, ", path,
                      ", which takes about ten times as long as OpenBLAS: apt-get install ",
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
  return absl::StrCat("OpenBLAS does not know this CPU and multiplies matrices with its oldest ",
                      "kernels (", core, "), at less than half the speed: export ",
                      "OPENBLAS_CORETYPE=", best);
}

void SetBlasThreads(int threads) {
  void* const symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (symbol != nullptr) reinterpret_cast<void (*)(int)>(symbol)(threads);
}

}  // namespace gradwire
