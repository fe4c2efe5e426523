#include "common/state/manifest.h"

#include <gmock/gmock.h>

#include "absl/strings/str_replace.h"
#include "tests/support/test_state.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

Manifest Full() {
  Manifest manifest = testing::SmallManifest();
  manifest.step = 1200;
  manifest.part_bytes = 64;
  manifest.file_bytes = 512;
  manifest.epoch = 3;
  manifest.threads = 5;
  manifest.finished = true;
  manifest.optimizer.groups.push_back({{{"lr", 0.2}}, {2, 0}});
  manifest.ledger = Manifest::Ledger{17, 0xfedcba9876543210};
  manifest.digests = {{"model", 1}, {"optimizer", 0xffffffffffffffff}};
  manifest.files = {{"model-00001-of-00001.safetensors", "model", 700, 5, {1, 2, 3}}};
  return manifest;
}

std::string WhyRefused(absl::string_view text) {
  const absl::StatusOr<Manifest> manifest = ParseManifest(text);
  EXPECT_EQ(manifest.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(manifest.status().message());
}

// The text with a part replaced, which must occur.
std::string Changed(absl::string_view from, absl::string_view to) {
  const std::string text = WriteManifest(Full());
  EXPECT_THAT(text, HasSubstr(std::string(from)));
  return absl::StrReplaceAll(text, {{from, to}});
}

TEST(Manifest, Parse_WrittenOne_HasAllFields) {
  const absl::StatusOr<Manifest> read = ParseManifest(WriteManifest(Full()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, 1200);
  EXPECT_EQ(read->version, "0.2.0");
  EXPECT_EQ(read->run_id, Full().run_id);
  EXPECT_EQ(read->steps_per_epoch, 10);
  EXPECT_EQ(read->total_steps, 100);
  EXPECT_EQ(read->world_size, 2);
  EXPECT_EQ(read->threads, 5);
  EXPECT_EQ(read->part_bytes, 64);
  EXPECT_EQ(read->file_bytes, 512);
  EXPECT_EQ(read->epoch, 3u);
  EXPECT_TRUE(read->finished);
  EXPECT_EQ(read->time, Full().time);
  EXPECT_EQ(read->settings, Full().settings);
  EXPECT_EQ(read->environment, Full().environment);
  EXPECT_EQ(read->optimizer.name, "sgd");
  ASSERT_EQ(read->optimizer.groups.size(), 2u);
  EXPECT_EQ(read->optimizer.groups[1].options, Full().optimizer.groups[1].options);
  EXPECT_EQ(read->optimizer.groups[1].parameters, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(read->digests, Full().digests);
  EXPECT_EQ(read->ledger->number, 17u);
  EXPECT_EQ(read->ledger->chain, 0xfedcba9876543210);
  ASSERT_EQ(read->files.size(), 1u);
  EXPECT_EQ(read->files[0].name, Full().files[0].name);
  EXPECT_EQ(read->files[0].section, "model");
  EXPECT_EQ(read->files[0].bytes, 700);
  EXPECT_EQ(read->files[0].header_hash, 5u);
  EXPECT_EQ(read->files[0].parts, Full().files[0].parts);
  EXPECT_EQ(WriteManifest(*read), WriteManifest(Full()));
}

TEST(Manifest, Parse_WithoutLedger_HasNone) {
  Manifest manifest = Full();
  manifest.ledger.reset();
  EXPECT_FALSE(ParseManifest(WriteManifest(manifest))->ledger.has_value());
}

TEST(Manifest, Write_TextThatIsNoUtf8_CanBeRead) {
  Manifest manifest = Full();
  manifest.settings["data-dir"] = "/\xff";
  EXPECT_EQ(ParseManifest(WriteManifest(manifest))->settings["data-dir"], "/\xef\xbf\xbd");
}

TEST(Manifest, Parse_NewerFormat_SaysWhatToUse) {
  EXPECT_EQ(WhyRefused(Changed("\"format\": 1", "\"format\": 2")),
            "checkpoint: got format 2 of version \"0.2.0\", expected format 1, which this version "
            "reads; use that version or a newer one");
}

TEST(Manifest, Parse_OlderFormat_SaysHowToTakeTheWeights) {
  EXPECT_THAT(WhyRefused(Changed("\"format\": 1", "\"format\": 0")),
              HasSubstr("use that version to export it, and pass the file as --weights"));
}

TEST(Manifest, Parse_ForeignFile_IsNamed) {
  for (const char* text :
       {"", "{}", "[]", "null", "\xff", "{\"format\": \"a\"}", "{\"format\": 1.5}"}) {
    EXPECT_THAT(WhyRefused(text), HasSubstr("expected that of a checkpoint of Gradwire")) << text;
  }
}

TEST(Manifest, Parse_WrongField_IsNamed) {
  EXPECT_EQ(WhyRefused(Changed("\"step\": 1200", "\"step\": -1")),
            "field step: got -1, expected a whole number from 0");
  EXPECT_EQ(WhyRefused(Changed("\"step\": 1200", "\"steps\": 1200")),
            "field step: got nothing, expected a whole number from 0");
  EXPECT_THAT(WhyRefused(Changed("\"world_size\": 2", "\"world_size\": 18446744073709551615")),
              HasSubstr("field world_size: got 18446744073709551615"));
  EXPECT_THAT(WhyRefused(Changed("\"finished\": true", "\"finished\": 1")),
              HasSubstr("field finished: got 1, expected true or false"));
  EXPECT_THAT(WhyRefused(Changed("fedcba9876543210", "fedcba987654321")),
              HasSubstr("field ledger.chain: got \"fedcba987654321\", expected 16 hexadecimal"));
  EXPECT_THAT(WhyRefused(Changed("\"bytes\": 700", "\"bytes\": 7.5")),
              HasSubstr("field files[0].bytes: got 7.5"));
  EXPECT_THAT(WhyRefused(Changed("\"lr\": 0.1", "\"lr\": null")),
              HasSubstr("optimizer.groups[0].options"));
  EXPECT_THAT(WhyRefused(Changed("2026-09-21T", "2026-99-21T")), HasSubstr("field time"));
}

TEST(Manifest, Parse_FieldThatThisVersionLacks_IsRefused) {
  EXPECT_THAT(WhyRefused(Changed("\"step\": 1200", "\"step\": 1200, \"more\": 1")),
              HasSubstr("a text that does not fit its checksum"));
}

TEST(Manifest, Parse_OtherNumberOrSpace_IsRefused) {
  EXPECT_THAT(WhyRefused(Changed("\"step\": 1200", "\"step\": 1201")), HasSubstr("checksum"));
  EXPECT_THAT(WhyRefused(Changed("\"step\": 1200", "\"step\":  1200")), HasSubstr("checksum"));
}

TEST(Manifest, Parse_ValuesNestedDeeply_IsRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  WhyRefused(Changed("\"step\": 1200", "\"step\": " + deep));
}

}  // namespace
}  // namespace gradwire
