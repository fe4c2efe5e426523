#include "coordinator/ledger/log_reader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace gradwire {
namespace {

constexpr size_t kNameDigits = 8;

absl::Status Damage(int segment, uint64_t offset, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("ledger/", SegmentName(segment), " is damaged at byte ", offset, ": ", what));
}

// Returns the number of a segment's file; 0 for any other file.
int SegmentOf(absl::string_view name) {
  int segment = 0;
  const bool is_log = absl::ConsumeSuffix(&name, ".log") && name.size() >= kNameDigits;
  return is_log && absl::SimpleAtoi(name, &segment) && segment > 0 ? segment : 0;
}

absl::StatusOr<std::vector<int>> ListSegments(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot read ledger ", folder, ": ", error.message()));
  }
  std::vector<int> segments;
  for (const auto& file : files) {
    const int segment = SegmentOf(file.path().filename().string());
    if (segment > 0) segments.push_back(segment);
  }
  std::sort(segments.begin(), segments.end());
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] == static_cast<int>(i) + 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(folder, ": got ", SegmentName(segments[i]),
                                                   ", expected ", SegmentName(int(i) + 1),
                                                   " before it"));
  }
  return segments;
}

// The frame at `offset` is not valid: a torn tail, or damage.
absl::StatusOr<TornTail> JudgeTail(int segment, absl::string_view bytes, uint64_t offset,
                                   bool is_last, const LedgerPosition& position,
                                   const absl::Status& why) {
  const absl::string_view tail = bytes.substr(offset);
  if (HasLaterFrame(tail, position)) {
    return Damage(segment, offset,
                  absl::StrCat("record ", position.number,
                               " is not valid although later ones are: ", why.message()));
  }
  if (!is_last) {
    return Damage(segment, offset,
                  absl::StrCat("record ", position.number,
                               " is not valid although a later segment exists: ", why.message()));
  }
  if (offset == 0 && !MayBeTorn(tail, TypeOf(v1::StartRecord()) | kBeginsGroup, position)) {
    return Damage(segment, offset,
                  absl::StrCat("got no Start record ", position.number, ", expected one as the ",
                               "first; move the file away if it belongs to something else"));
  }
  const bool is_short = absl::IsOutOfRange(why) && !HasWrongLength(tail, position);
  return TornTail{offset, tail.size(), std::string(why.message()), is_short};
}

}  // namespace

absl::StatusOr<std::string> ReadSegmentFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.is_open() && !file.bad()) return bytes;
  return absl::NotFoundError(absl::StrCat("cannot read ", path));
}

std::string SegmentName(int segment) { return absl::StrFormat("%08d.log", segment); }

std::string LedgerFolder(absl::string_view run_dir) { return absl::StrCat(run_dir, "/ledger"); }

absl::StatusOr<absl::optional<TornTail>> ReadSegment(int segment, absl::string_view bytes,
                                                     bool is_last, const OnEntry& on_entry,
                                                     LedgerPosition* position) {
  uint64_t offset = 0;
  while (offset < bytes.size()) {
    const absl::StatusOr<Frame> frame = ParseFrame(bytes.substr(offset), *position);
    if (!frame.ok()) {
      absl::StatusOr<TornTail> torn =
          JudgeTail(segment, bytes, offset, is_last, *position, frame.status());
      if (!torn.ok()) return torn.status();
      return absl::optional<TornTail>(*std::move(torn));
    }
    absl::StatusOr<Record> record = ParseRecord(frame->type, frame->payload);
    if (!record.ok()) return Damage(segment, offset, record.status().message());
    const absl::Status taken =
        on_entry({segment, offset, frame->number, *std::move(record), frame->chain});
    if (!taken.ok()) return taken;
    *position = frame->Next();
    offset += frame->bytes;
  }
  return absl::optional<TornTail>();
}

absl::StatusOr<LedgerEnd> ReadLedger(const std::string& run_dir, const OnEntry& on_entry) {
  const std::string folder = LedgerFolder(run_dir);
  const absl::StatusOr<std::vector<int>> segments = ListSegments(folder);
  if (!segments.ok()) return segments.status();
  LedgerEnd end;
  for (const int segment : *segments) {
    const absl::StatusOr<std::string> bytes =
        ReadSegmentFile(absl::StrCat(folder, "/", SegmentName(segment)));
    if (!bytes.ok()) return bytes.status();
    end.segment = segment;
    absl::StatusOr<absl::optional<TornTail>> torn =
        ReadSegment(segment, *bytes, segment == segments->back(), on_entry, &end.position);
    if (!torn.ok()) return torn.status();
    end.torn = *std::move(torn);
    end.bytes = end.torn.has_value() ? end.torn->offset : bytes->size();
  }
  return end;
}

}  // namespace gradwire
