#include "common/state/manifest.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/plain_text.h"
#include "common/base/status_util.h"
#include "common/wire/chunk.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kTimeFormat[] = "%Y-%m-%dT%H:%M:%SZ";
// Depth of values that messages may print, because they print them recursively.
constexpr int kMostDepth = 8;
constexpr size_t kMostShown = 60;  // bytes of a value in a message
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostInt = std::numeric_limits<int>::max();

std::string Hex(uint64_t number) { return absl::StrFormat("%016x", number); }

OrderedJson HexList(const std::vector<uint64_t>& numbers) {
  OrderedJson list = OrderedJson::array();
  for (const uint64_t number : numbers) list.push_back(Hex(number));
  return list;
}

OrderedJson FileJson(const ManifestFile& file) {
  return {{"name", file.name},
          {"section", file.section},
          {"bytes", file.bytes},
          {"header", Hex(file.header_hash)},
          {"parts", HexList(file.parts)}};
}

// Bytes that are no UTF-8, as in a path among the settings, become U+FFFD.
std::string Dump(const OrderedJson& json, int indent) {
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson OptimizerJson(const ManifestOptimizer& optimizer) {
  OrderedJson groups = OrderedJson::array();
  for (const ManifestOptimizer::Group& group : optimizer.groups) {
    groups.push_back({{"options", group.options}, {"parameters", group.parameters}});
  }
  return {{"name", optimizer.name}, {"groups", groups}};
}

// All fields but the checksum.
OrderedJson Body(const Manifest& manifest) {
  OrderedJson digests = OrderedJson::object();
  for (const auto& [section, digest] : manifest.digests) digests[section] = Hex(digest);
  OrderedJson ledger;
  if (manifest.ledger.has_value()) {
    ledger = {{"number", manifest.ledger->number}, {"chain", Hex(manifest.ledger->chain)}};
  }
  OrderedJson files = OrderedJson::array();
  for (const ManifestFile& file : manifest.files) files.push_back(FileJson(file));
  return {{"format", kCheckpointFormat},
          {"version", manifest.version},
          {"run_id", manifest.run_id},
          {"step", manifest.step},
          {"steps_per_epoch", manifest.steps_per_epoch},
          {"total_steps", manifest.total_steps},
          {"coordinator_epoch", manifest.epoch},
          {"world_size", manifest.world_size},
          {"threads", manifest.threads},
          {"finished", manifest.finished},
          {"time", absl::FormatTime(kTimeFormat, manifest.time, absl::UTCTimeZone())},
          {"settings", manifest.settings},
          {"environment", manifest.environment},
          {"optimizer", OptimizerJson(manifest.optimizer)},
          {"digests", digests},
          {"ledger", ledger},
          {"part_bytes", manifest.part_bytes},
          {"file_bytes", manifest.file_bytes},
          {"files", files}};
}

std::string Shown(const Json& value) {
  return Shortened(WithoutControls(value.dump()), kMostShown);
}

// Reads the fields of one object. Keeps the first error.
class Fields {
 public:
  // `where`: "" or the path of the object with a point, such as "files[2].".
  Fields(const Json& object, std::string where, absl::Status* status)
      : object_(object), where_(std::move(where)), status_(status) {
    if (!object.is_object()) Fail(where_, object, "an object");
  }

  // Returns the field's value; null if there is none.
  const Json& Find(const std::string& name) const {
    static const Json none;
    const auto found = object_.is_object() ? object_.find(name) : object_.end();
    return found == object_.end() ? none : *found;
  }

  void Read(const std::string& name, std::string* out) {
    const Json& value = Find(name);
    if (!value.is_string()) return Fail(name, value, "a text");
    *out = value.get<std::string>();
  }
  void Read(const std::string& name, bool* out) {
    const Json& value = Find(name);
    if (!value.is_boolean()) return Fail(name, value, "true or false");
    *out = value.get<bool>();
  }
  // A number from `least` to `most`.
  template <typename Number>
  void Read(const std::string& name, int64_t least, int64_t most, Number* out) {
    const Json& value = Find(name);
    if (!value.is_number_integer() || value < least || value > most) {
      return Fail(name, value, absl::StrCat("a whole number from ", least));
    }
    *out = value.get<Number>();
  }
  void ReadHex(const std::string& name, uint64_t* out) { ParseHex(name, Find(name), out); }
  void ReadHexList(const std::string& name, std::vector<uint64_t>* out) {
    const Json& list = Find(name);
    if (!list.is_array()) return Fail(name, list, "a list");
    out->resize(list.size());
    for (size_t i = 0; i < list.size(); ++i) ParseHex(name, list[i], &(*out)[i]);
  }
  void ReadHexMap(const std::string& name, std::map<std::string, uint64_t>* out) {
    const Json& map = Find(name);
    if (!map.is_object()) return Fail(name, map, "an object");
    for (const auto& [key, value] : map.items()) ParseHex(name, value, &(*out)[key]);
  }
  void ReadTexts(const std::string& name, std::map<std::string, std::string>* out) {
    const Json& map = Find(name);
    if (!map.is_object()) return Fail(name, map, "an object");
    for (const auto& [key, value] : map.items()) {
      if (!value.is_string()) return Fail(name, value, "texts");
      (*out)[key] = value.get<std::string>();
    }
  }
  void ReadNumbers(const std::string& name, std::map<std::string, double>* out) {
    const Json& map = Find(name);
    if (!map.is_object()) return Fail(name, map, "an object");
    for (const auto& [key, value] : map.items()) {
      if (!value.is_number()) return Fail(name, value, "numbers");
      (*out)[key] = value.get<double>();
    }
  }
  // Numbers from `least` to `most`.
  void ReadList(const std::string& name, int64_t least, int64_t most, std::vector<int64_t>* out) {
    const Json& list = Find(name);
    if (!list.is_array()) return Fail(name, list, "a list");
    for (const Json& value : list) {
      if (!value.is_number_integer() || value < least || value > most) {
        return Fail(name, value, absl::StrCat("integers from ", least, " to ", most));
      }
      out->push_back(value.get<int64_t>());
    }
  }
  void ReadTime(const std::string& name, absl::Time* out) {
    const Json& value = Find(name);
    std::string error;
    if (!value.is_string() ||
        !absl::ParseTime(kTimeFormat, value.get<std::string>(), absl::UTCTimeZone(), out, &error)) {
      Fail(name, value, "a time such as \"2026-01-31T09:00:00Z\"");
    }
  }

 private:
  void ParseHex(const std::string& name, const Json& value, uint64_t* out) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
      return Fail(name, value, "16 hexadecimal digits");
    }
    *out = std::stoull(text, nullptr, 16);
  }
  void Fail(const std::string& name, const Json& value, absl::string_view expected) {
    if (!status_->ok()) return;
    *status_ = Unexpected(absl::StrCat("field ", where_, name),
                          value.is_null() ? "nothing" : Shown(value), expected);
  }

  const Json& object_;
  const std::string where_;
  absl::Status* const status_;
};

absl::Status CheckFormat(const Json& json) {
  const Json format = json.is_object() && json.contains("format") ? json["format"] : Json();
  if (!format.is_number_integer()) {
    return Unexpected("manifest", "something else", "that of a checkpoint of Gradwire");
  }
  if (format == kCheckpointFormat) return absl::OkStatus();
  const bool newer = format > kCheckpointFormat;
  const Json version = json.contains("version") ? json["version"] : Json();
  return Unexpected(
      "checkpoint", absl::StrCat("format ", Shown(format), " of version ", Shown(version)),
      absl::StrCat("format ", kCheckpointFormat, ", which this version reads; ",
                   newer ? "use that version or a newer one"
                         : "use that version to export it, and pass the file as --weights"));
}

void ReadFiles(const Json& list, std::vector<ManifestFile>* files, absl::Status* status) {
  if (!list.is_array()) {
    status->Update(Unexpected("field files", Shown(list), "a list"));
    return;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    ManifestFile file;
    Fields fields(list[i], absl::StrCat("files[", i, "]."), status);
    fields.Read("name", &file.name);
    fields.Read("section", &file.section);
    fields.Read("bytes", 1, kMost, &file.bytes);
    fields.ReadHex("header", &file.header_hash);
    fields.ReadHexList("parts", &file.parts);
    files->push_back(std::move(file));
  }
}

void ReadOptimizer(const Json& json, ManifestOptimizer* optimizer, absl::Status* status) {
  Fields fields(json, "optimizer.", status);
  fields.Read("name", &optimizer->name);
  const Json& groups = fields.Find("groups");
  if (!groups.is_array()) {
    status->Update(Unexpected("field optimizer.groups", Shown(groups), "a list"));
    return;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    Fields group(groups[i], absl::StrCat("optimizer.groups[", i, "]."), status);
    ManifestOptimizer::Group& read = optimizer->groups.emplace_back();
    group.ReadNumbers("options", &read.options);
    group.ReadList("parameters", 0, kMost, &read.parameters);
  }
}

void ReadParts(Fields* fields, Manifest* manifest, absl::Status* status) {
  ReadOptimizer(fields->Find("optimizer"), &manifest->optimizer, status);
  if (!fields->Find("ledger").is_null()) {
    Fields ledger(fields->Find("ledger"), "ledger.", status);
    manifest->ledger.emplace();
    ledger.Read("number", 0, kMost, &manifest->ledger->number);
    ledger.ReadHex("chain", &manifest->ledger->chain);
  }
  ReadFiles(fields->Find("files"), &manifest->files, status);
}

absl::StatusOr<Manifest> ReadFields(const Json& json) {
  Manifest manifest;
  absl::Status status;
  Fields fields(json, "", &status);
  fields.Read("version", &manifest.version);
  fields.Read("run_id", &manifest.run_id);
  fields.Read("step", 0, kMost, &manifest.step);
  fields.Read("steps_per_epoch", 0, kMost, &manifest.steps_per_epoch);
  fields.Read("total_steps", 0, kMost, &manifest.total_steps);
  fields.Read("coordinator_epoch", 0, kMost, &manifest.epoch);
  fields.Read("world_size", 1, kMostInt, &manifest.world_size);
  fields.Read("threads", 1, kMostInt, &manifest.threads);
  fields.Read("finished", &manifest.finished);
  fields.ReadTime("time", &manifest.time);
  fields.ReadTexts("settings", &manifest.settings);
  fields.ReadTexts("environment", &manifest.environment);
  fields.ReadHexMap("digests", &manifest.digests);
  fields.Read("part_bytes", 1, kMost, &manifest.part_bytes);
  fields.Read("file_bytes", 1, kMost, &manifest.file_bytes);
  ReadParts(&fields, &manifest, &status);
  if (!status.ok()) return status;
  return manifest;
}

}  // namespace

std::string WriteManifest(const Manifest& manifest) {
  OrderedJson json = Body(manifest);
  json["checksum"] = Hex(Checksum(Dump(json, -1)));
  return Dump(json, 1) + "\n";
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  const auto is_shallow = [](int depth, Json::parse_event_t, const Json&) {
    return depth < kMostDepth;
  };
  const Json json = Json::parse(text.begin(), text.end(), is_shallow, /*allow_exceptions=*/false);
  absl::Status status = CheckFormat(json);
  if (!status.ok()) return status;
  absl::StatusOr<Manifest> manifest = ReadFields(json);
  if (!manifest.ok()) return manifest.status();
  // Also finds fields that this version does not know.
  if (WriteManifest(*manifest) == text) return manifest;
  return Unexpected("manifest", "a text that does not fit its checksum",
                    "the text as Gradwire wrote it; was it changed or damaged?");
}

}  // namespace gradwire
