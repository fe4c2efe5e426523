#include "common/options/version.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/host.h"
#include "common/fold/kernels.h"
#include "common/wire/protocol.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

std::string Line(absl::string_view name, absl::string_view value) {
  return absl::StrFormat("  %-13s%s\n", name, value);
}

std::string BlasHere() {
  const absl::StatusOr<Blas> blas = FindBlas();
  return blas.ok() ? Describe(*blas) : std::string(blas.status().message());
}

}  // namespace

std::string VersionText(absl::string_view program) {
  const std::string sets =
      absl::StrCat(KernelsInUse().name, " (sums), ", Xxh3InUse().name, " (checksums)");
  return absl::StrCat(
      program, " ", GRADWIRE_VERSION, "\n", Line("protocol", absl::StrCat(kProtocolVersion)),
      Line("compiler", GRADWIRE_COMPILER), Line("libtorch", GRADWIRE_LIBTORCH),
      Line("gRPC", GRADWIRE_GRPC), Line("BLAS", BlasHere()), Line("instructions", sets));
}

}  // namespace gradwire
