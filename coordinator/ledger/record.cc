#include "coordinator/ledger/record.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gradwire {
namespace {

// Returns an empty record of the type; the type must be 1 to the number of records.
template <size_t... kIndices>
Record MakeRecord(uint32_t type, std::index_sequence<kIndices...> /*indices*/) {
  Record record;
  (void)((type == kIndices + 1 && (record.emplace<kIndices>(), true)) || ...);
  return record;
}

google::protobuf::MessageLite& MessageOf(Record* record) {
  return std::visit([](auto& message) -> google::protobuf::MessageLite& { return message; },
                    *record);
}

}  // namespace

uint32_t TypeOf(const Record& record) { return static_cast<uint32_t>(record.index()) + 1; }

std::string PayloadOf(const Record& record) {
  return std::visit([](const auto& message) { return message.SerializeAsString(); }, record);
}

absl::StatusOr<Record> ParseRecord(uint32_t type, absl::string_view payload) {
  constexpr size_t kTypes = std::variant_size_v<Record>;
  if (type < 1 || type > kTypes) {
    return absl::DataLossError(absl::StrCat("type: got ", type, ", expected 1 to ", kTypes,
                                            "; a newer version of gradwire may read it"));
  }
  Record record = MakeRecord(type, std::make_index_sequence<kTypes>());
  if (!MessageOf(&record).ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError(
        absl::StrCat("got a payload that is no ", NameOf(record), " record"));
  }
  return record;
}

absl::string_view NameOf(const Record& record) {
  return std::visit(
      [](const auto& message) {
        absl::string_view name = message.GetDescriptor()->name();
        absl::ConsumeSuffix(&name, "Record");
        return name;
      },
      record);
}

}  // namespace gradwire
