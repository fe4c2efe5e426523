#include "worker/options/traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

namespace fs = std::filesystem;

TEST(Traits, TraitsOfSync_DefaultBackend_IsARowExactlyIfItAverages) {
  const std::vector<std::string> backends = NamesOf(BackendChoicesWithAuto());
  for (const std::string& sync : NamesOf(SyncChoices())) {
    const SyncTraits traits = TraitsOfSync(sync);
    const bool is_row = std::count(backends.begin(), backends.end(), traits.default_backend) == 1;
    EXPECT_EQ(is_row, traits.averages) << sync;
  }
}

TEST(Traits, TraitsOfBackend_EveryRow_OfTheTable) {
  EXPECT_EQ(TraitsOfBackend("coordinator").links, LinkPattern::kCoordinator);
  EXPECT_EQ(TraitsOfBackend("sharded").links, LinkPattern::kPairs);
  EXPECT_EQ(TraitsOfBackend("sharded").exact, Exact::kAlways);
  EXPECT_EQ(TraitsOfBackend("ring").exact, Exact::kFloat32);
  EXPECT_EQ(TraitsOfBackend("gloo").exact, Exact::kNever);
  EXPECT_TRUE(TraitsOfBackend("ring").halves);
  EXPECT_FALSE(TraitsOfBackend("gloo").halves);
  EXPECT_FALSE(TraitsOfBackend("gloo").several_ranks);
  EXPECT_EQ(TraitsOfBackend("tree").links, LinkPattern::kTree);
  EXPECT_EQ(TraitsOfBackend("tree").collectives, Collectives::kAll);
  EXPECT_EQ(TraitsOfBackend("sharded").collectives, Collectives::kTwo);
  EXPECT_TRUE(TraitsOfBackend("mpi").under_mpirun);
  EXPECT_FALSE(TraitsOfBackend("gloo").under_mpirun);
  EXPECT_TRUE(TraitsOfBackend("mpi").no_tls);
}

TEST(Traits, LoadsWorkersAlike_WhatTheCoordinatorOrRank0Carries_IsNotAlike) {
  for (const LinkPattern links : {LinkPattern::kWorkers, LinkPattern::kRing, LinkPattern::kPairs}) {
    EXPECT_TRUE(LoadsWorkersAlike(links));
  }
  for (const LinkPattern links :
       {LinkPattern::kCoordinator, LinkPattern::kTree, LinkPattern::kNone}) {
    EXPECT_FALSE(LoadsWorkersAlike(links));
  }
}

TEST(Traits, CheckMpirun_OnlyBackEndsThatNeedIt_AndOnlyWithoutIt) {
  EXPECT_TRUE(CheckMpirun("ring", {}).ok());
  EXPECT_TRUE(CheckMpirun("mpi", {{"OMPI_COMM_WORLD_SIZE", "4"}}).ok());
  EXPECT_TRUE(CheckMpirun("mpi", {{"PMIX_RANK", "0"}}).ok());
  const absl::Status status = CheckMpirun("mpi", {{"SLURM_PROCID", "0"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("back end mpi: got neither OMPI_COMM_WORLD_SIZE nor PMIX_RANK"));
}

// Places that compare with a word that is also a row's name.
bool IsAllowed(const std::string& line) {
  for (const char* other : {"if (wanted == \"none\")",  // of GRADWIRE_PROGRESS
                            "if (rate == \"none\")",    // of a link
                            "options->rate != \"none\""}) {
    if (line.find(other) != std::string::npos) return true;
  }
  return false;
}

// Lines of C++ that compare something with the name of a row of a table that has traits.
std::vector<std::string> ComparisonsIn(const fs::path& folder) {
  std::vector<std::string> names = NamesOf(BackendChoices());
  for (const auto& choices : {SyncChoices(), OptimizerChoices(), ScheduleChoices()}) {
    for (const std::string& name : NamesOf(choices)) names.push_back(name);
  }
  const std::regex comparison(absl::StrCat("[=!]= \"(", absl::StrJoin(names, "|"), ")\"|\"(",
                                           absl::StrJoin(names, "|"), ")\" [=!]="));
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cc" && extension != ".h") continue;
    std::ifstream file(entry.path());
    std::string line;
    while (std::getline(file, line)) {
      if (!std::regex_search(line, comparison) || IsAllowed(line)) continue;
      found.push_back(absl::StrCat(entry.path().string(), ": ", line));
    }
  }
  return found;
}

// A row stands for itself: what a new one is like is said in its columns, so that adding one
// is one file and one line.
TEST(Traits, Sources_NoComparisonWithARowsName) {
  for (const char* folder : {"worker", "bench", "cli", "common"}) {
    EXPECT_THAT(ComparisonsIn(fs::path(GRADWIRE_SOURCE_DIR) / folder), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace gradwire
