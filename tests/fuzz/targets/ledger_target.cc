// The bytes of a ledger's segment: any bytes are refused or read, and what is read is also what a
// reader of the first part of them reads.
//
//   input[0]  even: the rest is the segment; odd: a sound segment, with changes
//   input[1]  odd: it is not the last segment
//   the rest  the segment; or for each change: place, new byte

#include <vector>

#include "coordinator/ledger/replay.h"
#include "tests/coordinator/ledger/ledger_records.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_reader.h"

namespace gradwire {
namespace {

std::string SoundSegment() {
  LedgerPosition position;
  std::vector<Record> records = testing::RunOf(1, 0, 3);
  records.emplace_back(testing::View(1, 2, 3));
  records.emplace_back(testing::Sealed(3, 2));
  records.emplace_back(testing::End());
  return testing::SegmentOf(records, &position);
}

std::string SegmentFrom(InputReader* input, bool is_sound) {
  if (!is_sound) return input->Rest();
  std::string segment = SoundSegment();
  for (int change = 0; change < 4 && !input->is_done(); ++change) {
    const uint64_t place = 256 * input->Byte() + input->Byte();
    segment[place % segment.size()] = static_cast<char>(input->Byte());
  }
  return segment;
}

struct Reading {
  absl::StatusOr<absl::optional<TornTail>> torn = absl::optional<TornTail>();
  LedgerPosition position;
  uint64_t end = 0;  // of the records, in bytes
};

Reading Read(absl::string_view bytes, bool is_last) {
  Reading reading;
  LedgerReplay replay;
  reading.torn = ReadSegment(
      1, bytes, is_last, [&](const LedgerEntry& entry) { return replay.Add(entry); },
      &reading.position);
  const bool is_torn = reading.torn.ok() && reading.torn->has_value();
  reading.end = is_torn ? (*reading.torn)->offset : bytes.size();
  return reading;
}

}  // namespace

std::string ViolatedByLedger(absl::string_view bytes) {
  static const auto silent = google::protobuf::SetLogHandler(nullptr);
  (void)silent;
  InputReader input(bytes);
  const bool is_sound = input.Flag();
  const bool is_last = !input.Flag();
  const std::string segment = SegmentFrom(&input, is_sound);
  const Reading reading = Read(segment, is_last);
  if (!reading.torn.ok()) {
    return absl::IsInvalidArgument(reading.torn.status()) ? "" : "damage is another error";
  }
  if (!is_last && reading.torn->has_value()) return "a segment before the last has a torn tail";
  if (reading.end > segment.size()) return "a tail begins after the end";
  const Reading again = Read(absl::string_view(segment).substr(0, reading.end), false);
  if (!again.torn.ok()) return "what was found sound is not when it is read alone";
  if (!(again.position == reading.position)) return "a tail changes what is before it";
  return "";
}

std::vector<std::string> LedgerSeeds() {
  const std::string segment = SoundSegment();
  std::vector<std::string> seeds = {"", std::string("\1\0", 2), std::string("\1\1", 2),
                                    std::string("\0\0", 2) + segment};
  for (const size_t cut : {size_t{1}, size_t{20}, segment.size() / 2}) {
    seeds.push_back(std::string("\0\0", 2) + segment.substr(0, segment.size() - cut));
    seeds.push_back(std::string("\0\1", 2) + segment.substr(0, segment.size() - cut));
  }
  for (char place = 0; place < 64; place = static_cast<char>(place + 4)) {
    seeds.push_back({1, 0, 0, place, 1});
    seeds.push_back({1, 0, 1, place, '\xff'});
  }
  return seeds;
}

}  // namespace gradwire
