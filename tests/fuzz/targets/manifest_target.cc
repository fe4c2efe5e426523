// A checkpoint's manifest.
//
//   input[0]  odd: the rest is the file; even: the rest is its fields, and the checksum fits
//   the rest  JSON

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "common/state/manifest.h"
#include "common/wire/chunk.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_reader.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

// The text as a writer would have it, if the fields can be read at all.
std::string WithChecksum(const std::string& text) {
  // Deep values would be printed recursively.
  const auto is_shallow = [](int depth, Json::parse_event_t, const Json&) { return depth < 16; };
  Json json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (!json.is_object()) return text;
  json.erase("checksum");
  json["checksum"] = absl::StrFormat("%016x", Checksum(json.dump()));
  return json.dump(1) + "\n";
}

}  // namespace

std::string ViolatedByManifest(absl::string_view bytes) {
  InputReader input(bytes);
  const bool is_file = input.Flag();
  const std::string rest = input.Rest();
  const std::string text = is_file ? rest : WithChecksum(rest);
  const absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (!manifest.ok()) {
    const bool is_fit = absl::IsInvalidArgument(manifest.status());
    return is_fit && !manifest.status().message().empty() ? "" : "got another error";
  }
  if (WriteManifest(*manifest) != text) return "it is not written as it was read";
  return manifest->world_size > 0 && manifest->step >= 0 && manifest->part_bytes > 0
             ? ""
             : "a number is out of its range";
}

std::vector<std::string> ManifestSeeds() {
  Manifest manifest;
  manifest.version = "0.2.0";
  manifest.world_size = 2;
  manifest.threads = 1;
  manifest.part_bytes = 64;
  manifest.file_bytes = 512;
  manifest.time = absl::FromUnixSeconds(1790000000);
  manifest.settings = {{"model", "vgg11"}};
  manifest.optimizer = {"sgd", {{{{"lr", 0.1}}, {1, 0}}}};
  manifest.digests = {{"model", 7}};
  manifest.ledger = Manifest::Ledger{1, 2};
  manifest.files = {{"model-00001-of-00001.safetensors", "model", 700, 5, {1, 2, 3}}};
  const std::string fields(1, '\0'), file(1, '\1');
  return {"",
          file + WriteManifest(manifest),
          fields + WriteManifest(manifest),
          fields + R"({"format": 2, "version": {"a": [1]}})",
          fields + R"({"format": 1, "step": 1e999, "settings": {"a": 1}, "files": [{}, 3]})",
          fields + R"({"format": 1, "ledger": [], "optimizer": null, "time": "2026-13-01"})",
          file + R"({"format": )" + std::string(3000, '[') + std::string(3000, ']') + "}",
          file + "{\"format\":1,\"version\":\"\xff\"}"};
}

}  // namespace gradwire
