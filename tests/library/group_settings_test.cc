#include "library/group_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(ReadGroupSettings, NothingGiven_RunOfOneRankOnAPortOfItsOwn) {
  const GroupSettings settings = ReadGroupSettings({}, {}).value();
  EXPECT_EQ(settings.coordinator, "127.0.0.1:0");
  EXPECT_EQ(settings.rank, 0);
  EXPECT_EQ(settings.world_size, 1);
  EXPECT_EQ(settings.backend, "auto");
  EXPECT_EQ(settings.name, "library_tests");
  EXPECT_EQ(settings.metrics, "");
}

TEST(ReadGroupSettings, Torchrun_TakesItsPlace) {
  const Environment torchrun = {{"RANK", "3"},          {"WORLD_SIZE", "4"},
                                {"LOCAL_RANK", "1"},    {"LOCAL_WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "n07"}, {"MASTER_PORT", "29500"}};
  const GroupSettings settings = ReadGroupSettings({}, torchrun).value();
  EXPECT_EQ(settings.rank, 3);
  EXPECT_EQ(settings.world_size, 4);
  EXPECT_EQ(settings.local_rank, 1);
  EXPECT_EQ(settings.coordinator, "n07:29500");
}

TEST(ReadGroupSettings, FieldAndVariable_TheFieldCounts) {
  GroupOptions options;
  options.wire = "bf16";
  options.step_timeout_seconds = 7;
  const Environment environment = {{"GRADWIRE_WIRE", "fp16"}, {"GRADWIRE_BACKEND", "ring"}};
  const GroupSettings settings = ReadGroupSettings(options, environment).value();
  EXPECT_EQ(settings.wire_dtype, v1::DTYPE_BFLOAT16);
  EXPECT_EQ(settings.backend, "ring");
  EXPECT_EQ(settings.step_timeout, absl::Seconds(7));
}

TEST(ReadGroupSettings, FileOfAWorker_ItsOwnOptionsAreIgnored) {
  testing::TempDir dir;
  const Environment environment = {{"GRADWIRE_CONFIG", dir.File("run.ini")}};
  testing::WriteFile(dir.File("run.ini"), "[worker]\nbatch-size = 64\nsync = ddp\nwire = bf16\n");
  const auto settings = ReadGroupSettings({}, environment);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->wire_dtype, v1::DTYPE_BFLOAT16);
  testing::WriteFile(dir.File("run.ini"), "[worker]\nbatchsize = 64\n");
  EXPECT_THAT(std::string(ReadGroupSettings({}, environment).status().message()),
              HasSubstr("unknown key 'batchsize'"));
}

TEST(ReadGroupSettings, RankBeyondTheWorldSize_InvalidArgumentNamesBoth) {
  GroupOptions options;
  options.world_size = 2;
  const absl::Status status = ReadGroupSettings(options, {{"GRADWIRE_RANK", "2"}}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("GRADWIRE_RANK: got '2'"));
}

TEST(ReadGroupSettings, CoordinatorGivenWithoutWorldSize_ItIsTheCoordinators) {
  GroupOptions options;
  options.coordinator = "127.0.0.1:29400";
  const GroupSettings settings = ReadGroupSettings(options, {}).value();
  EXPECT_EQ(settings.world_size, 0);
  EXPECT_EQ(settings.rank, -1);
}

// Of a launcher that forgot the world size: no rank may train alone.
TEST(ReadGroupSettings, LaterRankAlone_IsNoRunOfOneRank) {
  GroupOptions options;
  options.rank = 1;
  const GroupSettings settings = ReadGroupSettings(options, {}).value();
  EXPECT_EQ(settings.rank, 1);
  EXPECT_EQ(settings.world_size, 0);
  EXPECT_EQ(settings.coordinator, "127.0.0.1:29400");
}

TEST(ReadGroupSettings, SeveralConnections_AreForABackEndThatTakesThem) {
  GroupOptions options;
  options.connections = 2;
  EXPECT_EQ(ReadGroupSettings(options, {})->backend, "sharded");
  options.backend = "ring";
  EXPECT_THAT(std::string(ReadGroupSettings(options, {}).status().message()),
              HasSubstr("got 2 with back end ring, expected 1"));
}

TEST(ReadGroupSettings, HalfTypeWithABackEndOfFloat32_IsRefused) {
  GroupOptions options;
  options.wire = "bf16";
  EXPECT_TRUE(ReadGroupSettings(options, {}).ok());
  options.backend = "gloo";
  EXPECT_THAT(std::string(ReadGroupSettings(options, {}).status().message()),
              HasSubstr("got 'bf16' with back end gloo, expected fp32"));
}

TEST(ReadGroupSettings, Compress_IsTheTypeOnTheWire) {
  GroupOptions options;
  EXPECT_FALSE(ReadGroupSettings(options, {})->compression.is_on());
  options.compress = "top-k:0.05";
  options.compress_warmup = 7;
  const GroupSettings settings = ReadGroupSettings(options, {}).value();
  EXPECT_EQ(settings.backend, "auto");
  EXPECT_EQ(settings.wire_dtype, v1::DTYPE_SPARSE);
  EXPECT_EQ(settings.compression.density, 0.05);
  EXPECT_EQ(settings.compression.warmup_steps, 7);
}

TEST(ReadGroupSettings, Factors_GoWithAnyBackEnd) {
  const Environment environment = {{"GRADWIRE_COMPRESS", "powersgd:2"},
                                   {"GRADWIRE_BACKEND", "ring"}};
  const GroupSettings settings = ReadGroupSettings({}, environment).value();
  EXPECT_EQ(settings.compression.rank, 2u);
  EXPECT_EQ(settings.wire_dtype, v1::DTYPE_FLOAT32);
}

TEST(ReadGroupSettings, CompressThatFitsNothing_SaysWhy) {
  const auto error_of = [](const GroupOptions& options) {
    return std::string(ReadGroupSettings(options, {}).status().message());
  };
  GroupOptions options;
  options.compress = "zip";
  EXPECT_THAT(error_of(options), HasSubstr("got 'zip', expected none, int8, top-k:D"));
  options.compress = "int8";
  options.backend = "ring";
  EXPECT_THAT(error_of(options), HasSubstr("got 'int8' with back end ring"));
  options.backend = "";
  options.wire = "bf16";
  EXPECT_THAT(error_of(options), HasSubstr("got 'int8' with wire bf16"));
  options.wire = "";
  options.compress_warmup = 3;
  EXPECT_THAT(error_of(options), HasSubstr("expected both or neither"));
}

TEST(ReadGroupSettings, EachField_IsTaken) {
  GroupOptions options;
  options.coordinator = "10.0.0.1:1";
  options.rank = 2;
  options.world_size = 4;
  options.local_rank = 1;
  options.host_coordinator = false;
  options.coordinator_metrics = "off";
  options.backend = "sharded";
  options.shared_memory = "off";
  options.connections = 3;
  options.name = "n";
  options.metrics = "127.0.0.1:2";
  options.trace = "t";
  options.listen = "127.0.0.1:3";
  options.advertise = "me";
  options.connect_timeout_seconds = 1.5;
  options.step_timeout_seconds = 2.5;
  options.token_file = "k";
  options.tls_cert = "c";
  options.tls_key = "y";
  options.tls_ca = "a";
  options.insecure = true;
  const GroupSettings settings = ReadGroupSettings(options, {}).value();
  EXPECT_EQ(settings.coordinator, "10.0.0.1:1");
  EXPECT_EQ(settings.rank, 2);
  EXPECT_EQ(settings.world_size, 4);
  EXPECT_EQ(settings.local_rank, 1);
  EXPECT_FALSE(settings.host_coordinator);
  EXPECT_EQ(settings.coordinator_metrics, "off");
  EXPECT_EQ(settings.backend, "sharded");
  EXPECT_EQ(settings.shared_memory, "off");
  EXPECT_EQ(settings.connections, 3);
  EXPECT_EQ(settings.name, "n");
  EXPECT_EQ(settings.metrics, "127.0.0.1:2");
  EXPECT_EQ(settings.trace, "t");
  EXPECT_EQ(settings.listen, "127.0.0.1:3");
  EXPECT_EQ(settings.advertise, "me");
  EXPECT_EQ(settings.connect_timeout, absl::Seconds(1.5));
  EXPECT_EQ(settings.step_timeout, absl::Seconds(2.5));
  EXPECT_EQ(settings.security.token_file, "k");
  EXPECT_EQ(settings.security.tls_cert, "c");
  EXPECT_EQ(settings.security.tls_key, "y");
  EXPECT_EQ(settings.security.tls_ca, "a");
  EXPECT_TRUE(settings.security.insecure);
}

TEST(ReadGroupSettings, NothingGiven_TimeoutsAreThoseOfTheHeader) {
  const GroupSettings settings = ReadGroupSettings({}, {}).value();
  EXPECT_EQ(settings.connect_timeout, absl::Seconds(30));
  EXPECT_EQ(settings.step_timeout, absl::Seconds(300));
  EXPECT_EQ(settings.connections, 1);
}

TEST(ReadGroupSettings, NothingIsHosted_CoordinatorIsAtItsUsualPlace) {
  GroupOptions options;
  options.host_coordinator = false;
  const GroupSettings settings = ReadGroupSettings(options, {}).value();
  EXPECT_EQ(settings.coordinator, "127.0.0.1:29400");
  EXPECT_EQ(settings.world_size, 0);
  EXPECT_EQ(settings.rank, -1);
  EXPECT_EQ(settings.security.token, "");
}

// Nothing leaves its host.
TEST(ReadGroupSettings, RunOfOneRank_HasASecretOfItsOwnAndNoCertificate) {
  GroupOptions options;
  options.tls_cert = "c";
  options.tls_key = "y";
  options.tls_ca = "a";
  const SecurityOptions alone = ReadGroupSettings(options, {})->security;
  EXPECT_EQ(alone.tls_cert + alone.tls_key + alone.tls_ca, "");
  EXPECT_NE(alone.token, "");
  EXPECT_NE(alone.token, ReadGroupSettings(options, {})->security.token);
  options.token_file = "k";
  EXPECT_EQ(ReadGroupSettings(options, {})->security.token, "");
  options.coordinator = "127.0.0.1:29400";
  EXPECT_EQ(ReadGroupSettings(options, {})->security.tls_cert, "c");
}

TEST(ReadGroupSettings, AddressThatAnyHostCouldReach_IsRefusedUnlessAskedFor) {
  for (std::string GroupOptions::*field : {&GroupOptions::listen, &GroupOptions::metrics}) {
    GroupOptions options;
    options.*field = "8.8.8.8:9400";
    EXPECT_THAT(std::string(ReadGroupSettings(options, {}).status().message()),
                HasSubstr("got 8.8.8.8:9400: any host could reach that address"));
    options.insecure = true;
    EXPECT_TRUE(ReadGroupSettings(options, {}).ok());
  }
}

TEST(ReadGroupSettings, MetricsOff_AreNotServed) {
  GroupOptions options;
  options.metrics = "off";
  EXPECT_EQ(ReadGroupSettings(options, {})->metrics, "");
}

TEST(ReadGroupSettings, CertificateWithABackEndOfPlainConnections_IsRefused) {
  GroupOptions options;
  options.coordinator = "127.0.0.1:29400";
  options.tls_cert = "c";
  EXPECT_TRUE(ReadGroupSettings(options, {}).ok());
  options.backend = "gloo";
  EXPECT_THAT(std::string(ReadGroupSettings(options, {}).status().message()),
              HasSubstr("got back end gloo, whose connections cannot be encrypted"));
}

TEST(ReadGroupSettings, FactorsWithABackEndOfOneOrder_AreRefused) {
  GroupOptions options;
  options.compress = "powersgd:2";
  options.backend = "gloo";
  EXPECT_THAT(std::string(ReadGroupSettings(options, {}).status().message()),
              HasSubstr("'powersgd:2' with back end gloo (--backend), expected another back end"));
}

}  // namespace
}  // namespace gradwire
