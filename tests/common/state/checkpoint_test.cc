#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>

#include "common/base/status_util.h"
#include "common/state/checkpoint_reader.h"
#include "common/state/checkpoint_writer.h"
#include "common/state/checkpoints.h"
#include "common/state/finite.h"
#include "common/state/tensor_reader.h"
#include "tests/support/recording_disk.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_state.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PartOf;
using testing::PublishSmall;
using testing::ReadFile;
using testing::RecordingDisk;
using testing::ReplaceSmall;
using testing::SmallManifest;
using testing::SmallPlan;
using testing::TempDir;
using testing::WriteFile;

constexpr char kWeights[] = "model-00001-of-00002.safetensors";

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ErrorOf(const absl::Status& status) {
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

// What a look at all of a checkpoint's bytes says.
absl::Status Verified(const std::string& folder) {
  const auto reader = CheckpointReader::Open(folder);
  return reader.ok() ? (*reader)->Verify() : reader.status();
}

// Writes the manifest of a checkpoint anew, with the checksum that fits.
void ChangeManifest(const std::string& folder, const std::function<void(Manifest*)>& change) {
  const std::string path = folder + "/" + kManifestName;
  Manifest manifest = ParseManifest(ReadFile(path)).value();
  change(&manifest);
  WriteFile(path, WriteManifest(manifest));
}

class Checkpoint : public ::testing::Test {
 protected:
  std::string Publish(int64_t step) { return PublishSmall(dir_.path(), step, &disk_).value(); }
  // Opens a writer and writes all parts.
  std::unique_ptr<CheckpointWriter> Written(int64_t step) {
    auto writer = CheckpointWriter::Open(dir_.path(), step, SmallPlan(), &disk_).value();
    for (int part = 0; writer->missing() > 0; ++part) {
      EXPECT_TRUE(writer->Write(part, PartOf(writer->plan(), part, step)).ok());
    }
    return writer;
  }

  const TempDir dir_;
  RecordingDisk disk_;
};

TEST_F(Checkpoint, Publish_AllParts_ReadsBackEachPartAndTheManifest) {
  const std::string folder = Publish(1200);
  EXPECT_EQ(folder, dir_.File("step-000000001200"));
  const auto reader = CheckpointReader::Open(folder);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const StatePlan plan = SmallPlan();
  ASSERT_EQ((*reader)->plan().parts().size(), plan.parts().size());
  EXPECT_EQ((*reader)->plan().sections()[0].tensors, plan.sections()[0].tensors);
  EXPECT_EQ((*reader)->plan().sections()[2].tensors, plan.sections()[2].tensors);
  for (int part = 0; part < static_cast<int>(plan.parts().size()); ++part) {
    std::vector<uint8_t> bytes(static_cast<size_t>(plan.parts()[part].bytes));
    ASSERT_TRUE((*reader)->Read(part, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), PartOf(plan, part, 1200)) << part;
  }
  EXPECT_EQ((*reader)->manifest().step, 1200);
  EXPECT_EQ((*reader)->manifest().settings, SmallManifest().settings);
  EXPECT_TRUE((*reader)->Verify().ok());
}

TEST_F(Checkpoint, ReadTensor_ThatGoesThroughSeveralParts_GivesItsValues) {
  const auto reader = CheckpointReader::Open(Publish(7)).value();
  const StatePlan& plan = reader->plan();
  std::string all;  // the values of the section's files
  for (int part = 0; part < static_cast<int>(plan.parts().size()); ++part) {
    if (plan.files()[plan.parts()[part].file].section == 0) all += PartOf(plan, part, 7);
  }
  TensorReader tensors(*reader);
  std::string read;
  for (const int tensor : {0, 1, 2}) {
    const auto take = [&read](absl::string_view piece) { read.append(piece.data(), piece.size()); };
    ASSERT_TRUE(tensors.Read(0, tensor, take).ok());
  }
  EXPECT_EQ(read, all);
}

TEST_F(Checkpoint, DigestOfASection_DependsOnItsValuesOnly) {
  const auto digests = [this](int64_t step) {
    return CheckpointReader::Open(Publish(step)).value()->manifest().digests;
  };
  const auto first = digests(1);
  EXPECT_EQ(first.size(), 3u);
  EXPECT_NE(first, digests(2));
  const TempDir other;
  EXPECT_EQ(CheckpointReader::Open(PublishSmall(other.path(), 1, &disk_).value())
                .value()
                ->manifest()
                .digests,
            first);
}

TEST_F(Checkpoint, Write_WrongPart_IsRefused) {
  auto writer = CheckpointWriter::Open(dir_.path(), 1, SmallPlan(), &disk_).value();
  const std::string part = PartOf(writer->plan(), 0, 1);
  EXPECT_THAT(ErrorOf(writer->Write(-1, part)), HasSubstr("part -1: got that number"));
  EXPECT_THAT(ErrorOf(writer->Write(1000, part)), HasSubstr("expected one below"));
  EXPECT_THAT(ErrorOf(writer->Write(0, part.substr(1))), HasSubstr("got 63 bytes, expected 64"));
  ASSERT_TRUE(writer->Write(0, part).ok());
  EXPECT_THAT(ErrorOf(writer->Write(0, part)), HasSubstr("got it again"));
}

TEST_F(Checkpoint, Publish_PartsMissing_IsRefusedAndNothingIsLeft) {
  auto writer = CheckpointWriter::Open(dir_.path(), 1, SmallPlan(), &disk_).value();
  ASSERT_TRUE(writer->Write(3, PartOf(writer->plan(), 3, 1)).ok());
  EXPECT_EQ(writer->Publish(SmallManifest()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  writer.reset();
  EXPECT_THAT(NamesIn(dir_.path()), IsEmpty());
}

TEST_F(Checkpoint, Publish_NaNInTheModel_IsRefusedByTheTensorsName) {
  auto writer = CheckpointWriter::Open(dir_.path(), 5, SmallPlan(), &disk_).value();
  const int parts = writer->missing();
  for (int part = 0; part < parts; ++part) {
    std::string bytes = PartOf(writer->plan(), part, 5);
    // Element 16 of 0.weight.
    const float bad = std::numeric_limits<float>::quiet_NaN();
    if (part == 1) std::memcpy(&bytes[0], &bad, sizeof(bad));
    ASSERT_TRUE(writer->Write(part, bytes).ok());
  }
  EXPECT_EQ(ErrorOf(writer->Publish(SmallManifest()).status()),
            "checkpoint of step 5: model '0.weight', element 16: got infinity or NaN, expected "
            "finite values; did training diverge? A constant, such as a mask, must be a buffer");
  writer.reset();
  EXPECT_THAT(NamesIn(dir_.path()), IsEmpty());
}

TEST_F(Checkpoint, Open_StepThatIsPublished_IsRefused) {
  const std::string folder = Publish(3);
  EXPECT_EQ(CheckpointWriter::Open(dir_.path(), 3, SmallPlan(), &disk_).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Verified(folder).ok());
}

TEST_F(Checkpoint, Open_AfterAWriterThatDied_RemovesItsFolder) {
  std::filesystem::create_directory(dir_.File("step-000000000009.tmp"));
  WriteFile(dir_.File("step-000000000009.tmp/part"), "x");
  std::filesystem::create_directory(dir_.File("mine.tmp"));
  Publish(10);
  EXPECT_THAT(NamesIn(dir_.path()), ElementsAre("mine.tmp", "step-000000000010"));
}

// Whichever operation fails, nothing is published and the old checkpoint stays.
TEST_F(Checkpoint, Publish_EachOperationFails_OldOneStaysAndTheErrorIsTold) {
  const TempDir clean;
  RecordingDisk counting;
  ASSERT_TRUE(PublishSmall(clean.path(), 2, &counting).ok());
  const size_t count = counting.operations().size();
  for (size_t i = 0; i + 1 < count; ++i) {
    const TempDir dir;
    ASSERT_TRUE(PublishSmall(dir.path(), 1, &RealDisk()).ok());
    RecordingDisk disk;
    disk.FailAt(i, absl::ResourceExhaustedError("cannot write x: no space left on device"));
    EXPECT_EQ(PublishSmall(dir.path(), 2, &disk).status().code(),
              absl::StatusCode::kResourceExhausted)
        << i;
    EXPECT_THAT(NamesIn(dir.path()), ElementsAre("step-000000000001")) << i;
    EXPECT_TRUE(Verified(dir.File("step-000000000001")).ok()) << i;
  }
}

// The first values of a checkpoint.
std::string FirstOf(const std::string& folder) {
  const auto reader = CheckpointReader::Open(folder);
  if (!reader.ok()) return std::string(reader.status().message());
  std::vector<uint8_t> bytes(static_cast<size_t>((*reader)->plan().parts()[0].bytes));
  EXPECT_TRUE((*reader)->Read(0, absl::MakeSpan(bytes)).ok());
  return std::string(bytes.begin(), bytes.end());
}

TEST_F(Checkpoint, Publish_InPlaceOfAnother_HasTheNewValuesAndTheOldOneIsGone) {
  Publish(1);
  const std::string folder = Publish(2);
  ASSERT_TRUE(ReplaceSmall(dir_.path(), 2, 7, &disk_).ok());
  EXPECT_EQ(FirstOf(folder), PartOf(SmallPlan(), 0, 7));
  EXPECT_TRUE(Verified(folder).ok());
  EXPECT_THAT(NamesIn(dir_.path()), ElementsAre("step-000000000001", "step-000000000002"));
}

// The last sync may fail after the new one has its name.
TEST_F(Checkpoint, Publish_InPlaceOfAnotherEachOperationFails_OneOfThemIsThere) {
  const std::string folder = Publish(2);
  RecordingDisk counting;
  ASSERT_TRUE(ReplaceSmall(dir_.path(), 2, 7, &counting).ok());
  for (size_t i = 0; i < counting.operations().size(); ++i) {
    std::filesystem::remove_all(folder);
    Publish(2);
    RecordingDisk disk;
    disk.FailAt(i, absl::InternalError("cannot write x"));
    const bool replaced = ReplaceSmall(dir_.path(), 2, 7, &disk).ok();
    EXPECT_TRUE(Verified(folder).ok()) << i;
    const std::string first = FirstOf(folder);
    EXPECT_TRUE(first == PartOf(SmallPlan(), 0, 7) ||
                (!replaced && first == PartOf(SmallPlan(), 0, 2)))
        << i;
  }
}

TEST_F(Checkpoint, Open_AfterAWriterThatDiedWhileItReplaced_RemovesTheOldFolder) {
  std::filesystem::rename(Publish(9), dir_.File("step-000000000009.old.tmp"));
  Publish(10);
  EXPECT_THAT(NamesIn(dir_.path()), ElementsAre("step-000000000010"));
}

TEST_F(Checkpoint, Publish_LastSyncFails_IsAnError) {
  const TempDir clean;
  RecordingDisk counting;
  ASSERT_TRUE(PublishSmall(clean.path(), 2, &counting).ok());
  disk_.FailAt(counting.operations().size() - 1, absl::InternalError("cannot write x"));
  EXPECT_EQ(PublishSmall(dir_.path(), 2, &disk_).status(), absl::InternalError("cannot write x"));
}

TEST_F(Checkpoint, Write_FileGrowsTooLarge_IsAFullDisk) {
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto writer = CheckpointWriter::Open(dir_.path(), 1, SmallPlan(), &RealDisk()).value();
  rlimit small = old;
  small.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  absl::Status status;
  for (int part = 0; status.ok() && part < 3; ++part) {
    status = writer->Write(part, PartOf(writer->plan(), part, 1));
  }
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(ErrorOf(status), HasSubstr("model-00001"));
  writer.reset();
  EXPECT_THAT(NamesIn(dir_.path()), IsEmpty());
}

TEST_F(Checkpoint, Open_EachByteOfTheManifestChanged_IsRefused) {
  const std::string folder = Publish(1);
  const std::string path = folder + "/" + kManifestName;
  const std::string text = ReadFile(path);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    WriteFile(path, changed);
    const absl::Status status = CheckpointReader::Open(folder).status();
    ASSERT_EQ(ExitCode(status), kExitUsage) << i << ": " << changed[i];
    ASSERT_THAT(ErrorOf(status), HasSubstr("manifest.json")) << i;
  }
}

TEST_F(Checkpoint, Verify_EachByteOfAFileChanged_IsRefusedByTheFilesName) {
  const std::string folder = Publish(1);
  const std::string path = folder + "/" + kWeights;
  const std::string bytes = ReadFile(path);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    WriteFile(path, changed);
    const absl::Status status = Verified(folder);
    ASSERT_EQ(ExitCode(status), kExitUsage) << i;
    ASSERT_THAT(ErrorOf(status), HasSubstr(kWeights)) << i;
  }
}

TEST_F(Checkpoint, Open_FileCutShortOrLonger_IsRefused) {
  const std::string folder = Publish(1);
  const std::string path = folder + "/" + kWeights;
  const std::string bytes = ReadFile(path);
  for (size_t size = 0; size < bytes.size(); size += 7) {
    WriteFile(path, bytes.substr(0, size));
    ASSERT_THAT(ErrorOf(CheckpointReader::Open(folder).status()),
                HasSubstr("got " + std::to_string(size) + " bytes"));
  }
  WriteFile(path, bytes + "x");
  EXPECT_THAT(ErrorOf(CheckpointReader::Open(folder).status()), HasSubstr("bytes, expected"));
}

TEST_F(Checkpoint, Open_FileMissingOrNoFile_IsRefused) {
  const std::string folder = Publish(1);
  std::filesystem::remove(folder + "/" + kWeights);
  EXPECT_THAT(ErrorOf(CheckpointReader::Open(folder).status()), HasSubstr(kWeights));
  std::filesystem::create_directory(folder + "/" + kWeights);
  EXPECT_EQ(ExitCode(CheckpointReader::Open(folder).status()), kExitUsage);
  EXPECT_EQ(ExitCode(CheckpointReader::Open(dir_.File("none")).status()), kExitUsage);
}

TEST_F(Checkpoint, Open_FileOfAnotherStep_IsRefused) {
  const std::string folder = Publish(1);
  const std::string other = Publish(2);
  WriteFile(folder + "/" + kWeights, ReadFile(other + "/" + kWeights));
  EXPECT_THAT(ErrorOf(Verified(folder)), HasSubstr("got other values"));
  std::filesystem::rename(other, dir_.File("step-000000000003"));
  EXPECT_THAT(ErrorOf(Verified(dir_.File("step-000000000003"))),
              HasSubstr("got step 2, expected that of the folder step-000000000003"));
}

TEST_F(Checkpoint, OpenCheckpoint_NewestIsDamaged_TakesTheNextAndSaysWhy) {
  Publish(1);
  Publish(2);
  WriteFile(Publish(3) + "/" + kWeights, "");
  std::vector<std::string> skipped;
  const auto checkpoint = OpenCheckpoint(dir_.path(), absl::nullopt, &skipped);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ((*checkpoint)->manifest().step, 2);
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("step-000000000003")));
}

TEST_F(Checkpoint, OpenCheckpoint_TwoNewestAreDamaged_BothAreNamedTheNewestFirst) {
  Publish(1);
  for (const int64_t step : {2, 3}) WriteFile(Publish(step) + "/" + kWeights, "");
  std::vector<std::string> skipped;
  const auto checkpoint = OpenCheckpoint(dir_.path(), absl::nullopt, &skipped);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->manifest().step, 1);
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("step-000000000003"), HasSubstr("step-000000000002")));
  EXPECT_THAT(ErrorOf(OpenCheckpoint(dir_.path(), 4, &skipped).status()),
              HasSubstr("got step 4, expected one of 3, 2, 1"));
}

TEST_F(Checkpoint, OpenCheckpoint_NoneSound_IsAWrongFile) {
  std::vector<std::string> skipped;
  EXPECT_EQ(OpenCheckpoint(dir_.path(), absl::nullopt, &skipped).status().code(),
            absl::StatusCode::kNotFound);
  WriteFile(Publish(3) + "/" + kWeights, "");
  EXPECT_THAT(ErrorOf(OpenCheckpoint(dir_.path(), absl::nullopt, &skipped).status()),
              HasSubstr("got no sound checkpoint"));
  EXPECT_THAT(ErrorOf(OpenCheckpoint(dir_.path(), 4, &skipped).status()),
              HasSubstr("got step 4, expected one of 3"));
}

TEST_F(Checkpoint, KeepNewest_CountsOnlySoundOnes) {
  for (const int64_t step : {1, 2, 3, 4, 5}) Publish(step);
  WriteFile(dir_.File("step-000000000004/") + kManifestName, "{}");
  ASSERT_TRUE(KeepNewest(dir_.path(), 5, 2, &disk_).ok());
  EXPECT_THAT(NamesIn(dir_.path()),
              ElementsAre("step-000000000003", "step-000000000004", "step-000000000005"));
}

// A run that was resumed before step 2, because 3 is damaged or by choice.
TEST_F(Checkpoint, KeepNewest_LaterOnes_NeitherCountNorGo) {
  for (const int64_t step : {1, 2, 3}) Publish(step);
  ASSERT_TRUE(KeepNewest(dir_.path(), 2, 1, &disk_).ok());
  EXPECT_THAT(NamesIn(dir_.path()), ElementsAre("step-000000000002", "step-000000000003"));
}

TEST_F(Checkpoint, KeepNewest_TakesTheNameAwayBeforeAFile) {
  Publish(1);
  Publish(2);
  const size_t begin = disk_.operations().size();
  ASSERT_TRUE(KeepNewest(dir_.path(), 2, 1, &disk_).ok());
  using Kind = testing::DiskOperation::Kind;
  EXPECT_EQ(disk_.operations()[begin].kind, Kind::kRename);
  EXPECT_EQ(disk_.operations()[begin].to, dir_.File("step-000000000001.tmp"));
  EXPECT_EQ(disk_.operations()[begin + 1].kind, Kind::kSyncFolder);
  EXPECT_EQ(disk_.operations()[begin + 2].kind, Kind::kRemove);
  EXPECT_THAT(NamesIn(dir_.path()), ElementsAre("step-000000000002"));
}

// Its checksum is right, so only a comparison with the files finds these.
TEST_F(Checkpoint, Open_ManifestThatDoesNotFitItsFiles_IsRefused) {
  const std::vector<std::pair<std::function<void(Manifest*)>, std::string>> changes = {
      {[](Manifest* manifest) { manifest->files[0].parts.pop_back(); }, "other files or parts"},
      {[](Manifest* manifest) { manifest->files[0].parts.push_back(1); }, "other files or parts"},
      {[](Manifest* manifest) { manifest->part_bytes *= 2; }, "other files or parts"},
      {[](Manifest* manifest) { manifest->files.erase(manifest->files.begin() + 1); },
       "other files or parts"},
      {[](Manifest* manifest) {
         std::swap(manifest->files[0].parts[0], manifest->files[0].parts[1]);
       },
       "other digests"},
      {[](Manifest* manifest) { manifest->digests.erase(kRanksSection); }, "other digests"}};
  const std::string folder = Publish(1);
  const std::string sound = ReadFile(folder + "/" + kManifestName);
  for (const auto& [change, expected] : changes) {
    WriteFile(folder + "/" + kManifestName, sound);
    ChangeManifest(folder, change);
    const absl::Status status = CheckpointReader::Open(folder).status();
    EXPECT_EQ(ExitCode(status), kExitUsage) << expected;
    EXPECT_THAT(ErrorOf(status), HasSubstr(expected));
  }
}

TEST_F(Checkpoint, OpenCheckpoint_OneStep_IsThatOneOrNone) {
  Publish(1);
  Publish(2);
  WriteFile(Publish(3) + "/" + kWeights, "");
  std::vector<std::string> skipped;
  const auto older = OpenCheckpoint(dir_.path(), 1, &skipped);
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ((*older)->manifest().step, 1);
  EXPECT_THAT(skipped, IsEmpty());
  EXPECT_THAT(ErrorOf(OpenCheckpoint(dir_.path(), 3, &skipped).status()),
              HasSubstr("got no sound checkpoint"));
}

TEST_F(Checkpoint, ScanRunDir_ValuesAreDamaged_OnlyALookAtAllBytesFindsIt) {
  Publish(1);
  const std::string path = Publish(2) + "/" + kWeights;
  std::string bytes = ReadFile(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteFile(path, bytes);
  const auto names = ScanRunDir(dir_.path());
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_EQ(names->size(), 2u);
  EXPECT_TRUE((*names)[0].status.ok()) << (*names)[0].status;
  auto all = ScanRunDir(dir_.path());
  ASSERT_TRUE(all.ok()) << all.status();
  VerifyAll(&*all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].folder.step, 2);
  EXPECT_THAT(ErrorOf((*all)[0].status), HasSubstr("got other values"));
  EXPECT_TRUE((*all)[1].status.ok()) << (*all)[1].status;
}

// By a run that goes on while someone looks.
TEST_F(Checkpoint, VerifyAll_OldestIsDeletedMeanwhile_IsLeftOut) {
  Publish(1);
  Publish(2);
  auto all = ScanRunDir(dir_.path());
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_TRUE(KeepNewest(dir_.path(), 2, 1, &disk_).ok());
  VerifyAll(&*all);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(all->front().folder.step, 2);
  EXPECT_TRUE(all->front().status.ok()) << all->front().status;
}

// A run may keep more checkpoints than a process may have files open.
TEST_F(Checkpoint, VerifyAll_FewFilesMayBeOpen_AllAreSound) {
  constexpr int kCheckpoints = 20;
  for (int step = 1; step <= kCheckpoints; ++step) Publish(step);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit low = old;
  const int next = dup(STDERR_FILENO);
  close(next);
  low.rlim_cur = static_cast<rlim_t>(next) + 12;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  auto all = ScanRunDir(dir_.path());
  if (all.ok()) VerifyAll(&*all);
  setrlimit(RLIMIT_NOFILE, &old);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), size_t{kCheckpoints});
  for (const CheckpointState& state : *all) EXPECT_TRUE(state.status.ok()) << state.status;
}

// A link to nothing is listed and cannot be opened, like a folder that goes between the two.
TEST_F(Checkpoint, ScanRunDir_OneGoesBeforeItIsOpened_IsLeftOut) {
  Publish(1);
  std::filesystem::create_symlink(dir_.File("none"), dir_.File("step-000000000002"));
  const auto all = ScanRunDir(dir_.path());
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(all->front().folder.step, 1);
}

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

absl::string_view BytesOfFloats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// These can only be trained to more such values.
TEST(CheckFinite, ModelAndOptimizerAlone_MustBeFinite) {
  const std::vector<float> values = {1, std::numeric_limits<float>::infinity()};
  for (const char* section : {kModelSection, kOptimizerSection, kRanksSection, kOuterSection}) {
    const StatePlan plan =
        StatePlan::Make({{section, {{"a", TensorType::kFloat32, {2}}}}}, 64, 512).value();
    const absl::Status status = CheckFinite(plan, 0, BytesOfFloats(values));
    const std::string name = section;
    EXPECT_EQ(status.ok(), name != kModelSection && name != kOptimizerSection) << name;
    if (!status.ok()) {
      EXPECT_THAT(ErrorOf(status), HasSubstr(name + " 'a', element 1: got infinity or NaN"));
    }
  }
}

// A parameter that is never trained may be meant to have such values; a moment of Adam may not.
TEST(CheckFinite, InfinityOrNaN_OfAParameterAdvisesABuffer) {
  for (const char* section : {kModelSection, kOptimizerSection}) {
    const StatePlan plan =
        StatePlan::Make({{section, {{"a", TensorType::kFloat32, {1}}}}}, 64, 512).value();
    const std::string error = ErrorOf(CheckFinite(plan, 0, BytesOfFloats({kNoNumber})));
    EXPECT_EQ(error.find("must be a buffer") != std::string::npos, section == std::string("model"))
        << error;
  }
}

// Parts of 7 bytes: the second one begins with the last byte of element 1.
TEST(CheckFinite, ElementBehindOneThatIsCut_IsFoundByItsNumber) {
  const StatePlan plan =
      StatePlan::Make({{kModelSection, {{"a", TensorType::kFloat32, {3}}}}}, 7, 512).value();
  ASSERT_EQ(plan.parts().size(), 2u);
  const std::vector<float> values = {1, 2, kNoNumber};
  const absl::string_view bytes = BytesOfFloats(values);
  EXPECT_EQ(CheckFinite(plan, 0, bytes.substr(0, 7)), absl::OkStatus());
  EXPECT_THAT(ErrorOf(CheckFinite(plan, 1, bytes.substr(7))),
              HasSubstr("model 'a', element 2: got infinity or NaN"));
}

}  // namespace
}  // namespace gradwire
