#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/host.h"

// Debian's libblas3 and kBlasPackage, which are installed for these tests.
#define BLAS_FOLDER "/usr/lib/" GRADWIRE_ARCHITECTURE

namespace gradwire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FindBlas, Reference_IsTold) {
  const absl::StatusOr<Blas> blas = FindBlas(BLAS_FOLDER "/blas/libblas.so.3");
  ASSERT_TRUE(blas.ok()) << blas.status();
  EXPECT_EQ(blas->name, "reference BLAS");
  EXPECT_THAT(blas->warning, HasSubstr(blas->path));
  EXPECT_THAT(blas->warning, EndsWith(absl::StrCat("apt-get install ", kBlasPackage)));
  EXPECT_THAT(blas->path, StartsWith(BLAS_FOLDER "/blas/libblas.so.3."));
}

TEST(FindBlas, OpenBlas_HasVersionVariantAndCore) {
  const absl::StatusOr<Blas> blas = FindBlas(BLAS_FOLDER "/openblas-openmp/libblas.so.3");
  ASSERT_TRUE(blas.ok()) << blas.status();
  EXPECT_THAT(blas->name, ::testing::MatchesRegex("OpenBLAS [0-9.]+ \\(openmp, [A-Za-z0-9]+\\)"));
  EXPECT_EQ(blas->path, BLAS_FOLDER "/openblas-openmp/libblas.so.3");
}

TEST(FindBlas, Default_IsTheOneOfTheSystem) {
  const absl::StatusOr<Blas> blas = FindBlas();
  ASSERT_TRUE(blas.ok()) << blas.status();
  EXPECT_THAT(blas->path, HasSubstr("/libblas.so.3"));
}

TEST(FindBlas, NoSuchFile_IsNotFound) {
  const absl::Status status = FindBlas("/nowhere/libblas.so.3").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/libblas.so.3"));
}

TEST(FindBlas, OtherLibrary_IsNotFound) {
  EXPECT_THAT(std::string(FindBlas("libm.so.6").status().message()),
              EndsWith("libm.so.6 has no sgemm_"));
}

TEST(CoreWarning, OldestKernelsOnANewCpu_NamesTheSetting) {
  EXPECT_THAT(CoreWarning("Prescott", "SkylakeX"), EndsWith("OPENBLAS_CORETYPE=SkylakeX"));
}

TEST(CoreWarning, KernelsForTheCpu_IsEmpty) {
  EXPECT_EQ(CoreWarning("Haswell", "SkylakeX"), "");
  EXPECT_EQ(CoreWarning("Prescott", ""), "");
}

}  // namespace
}  // namespace gradwire
