#include "worker/run/compute.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace gradwire {
namespace {

// How many threads OpenBLAS computes with, on which the tests run (deploy/packages).
int BlasThreads() {
  void* const symbol = dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
  return symbol == nullptr ? 0 : reinterpret_cast<int (*)()>(symbol)();
}

TEST(UseComputeThreads, Number_HoldsForTorchAndBlas) {
  for (int threads : {3, 1}) {
    UseComputeThreads(threads);
    EXPECT_EQ(torch::get_num_threads(), threads);
    EXPECT_EQ(BlasThreads(), threads);
  }
}

}  // namespace
}  // namespace gradwire
