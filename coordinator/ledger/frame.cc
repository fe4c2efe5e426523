#include "coordinator/ledger/frame.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

constexpr size_t kTypeAt = 4;
constexpr size_t kNumberAt = 8;
constexpr size_t kChainAt = 16;

template <typename T>
void Put(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// Needs at + sizeof(T) bytes.
template <typename T>
T Get(absl::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  }
  return value;
}

// `header`: the first 16 bytes of the frame.
uint64_t ChainOf(uint64_t before, absl::string_view header, absl::string_view payload) {
  std::string first;
  Put(before, &first);
  first.append(header.data(), kChainAt);
  const Xxh3Kernel& xxh3 = Xxh3InUse();
  Xxh3State state;
  xxh3.begin(&state);
  xxh3.update(&state, first.data(), first.size());
  xxh3.update(&state, payload.data(), payload.size());
  return xxh3.end(&state);
}

size_t Padded(size_t bytes) {
  return (bytes + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
}

// The bytes of a frame with that length field; 0 if it is too long.
size_t FrameBytes(uint32_t length) {
  return length > kMostPayloadBytes ? 0 : Padded(kFrameHeaderBytes + length);
}

// Whether `bytes` have all of the frame at their start.
bool IsWhole(absl::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes) return false;
  const size_t frame = FrameBytes(Get<uint32_t>(bytes, 0));
  return frame != 0 && frame <= bytes.size();
}

bool IsZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

absl::Status Damaged(absl::string_view what, uint64_t got, uint64_t expected) {
  return absl::DataLossError(absl::StrCat(what, ": got ", got, ", expected ", expected));
}

// Whether the whole frame at the start of `bytes` follows a record with this chain, and was written
// when that one was on the disk.
bool Follows(absl::string_view bytes, uint64_t chain) {
  if (!IsWhole(bytes) || (Get<uint32_t>(bytes, kTypeAt) & kBeginsGroup) == 0) return false;
  const auto length = Get<uint32_t>(bytes, 0);
  const absl::string_view payload = bytes.substr(kFrameHeaderBytes, length);
  return Get<uint64_t>(bytes, kChainAt) == ChainOf(chain, bytes, payload);
}

// Whether a record directly after the one at the start of `bytes` follows from the chain that this
// one states.
bool HasSuccessor(absl::string_view bytes) {
  if (!IsWhole(bytes)) return false;
  const absl::string_view next = bytes.substr(FrameBytes(Get<uint32_t>(bytes, 0)));
  // Numbers first, because a hash takes longer.
  return next.size() >= kFrameHeaderBytes &&
         Get<uint64_t>(next, kNumberAt) == Get<uint64_t>(bytes, kNumberAt) + 1 &&
         Follows(next, Get<uint64_t>(bytes, kChainAt));
}

// Whether `later` is the record after the one at `position`, whose damaged frame are the bytes
// `first` before it. The damage may be in its chain field.
bool FollowsDamaged(absl::string_view first, absl::string_view later,
                    const LedgerPosition& position) {
  if (first.size() < kFrameHeaderBytes || !IsWhole(later)) return false;
  if (Get<uint64_t>(later, kNumberAt) != position.number + 1) return false;
  if (Follows(later, Get<uint64_t>(first, kChainAt))) return true;
  const auto length = Get<uint32_t>(first, 0);
  if (FrameBytes(length) != first.size()) return false;
  return Follows(later, ChainOf(position.chain, first, first.substr(kFrameHeaderBytes, length)));
}

}  // namespace

std::string EncodeFrame(uint32_t type, absl::string_view payload, LedgerPosition* position) {
  std::string bytes;
  bytes.reserve(Padded(kFrameHeaderBytes + payload.size()));
  Put(static_cast<uint32_t>(payload.size()), &bytes);
  Put(type, &bytes);
  Put(position->number, &bytes);
  position->chain = ChainOf(position->chain, bytes, payload);
  ++position->number;
  Put(position->chain, &bytes);
  bytes.append(payload.data(), payload.size());
  bytes.resize(Padded(bytes.size()));
  return bytes;
}

absl::StatusOr<Frame> ParseFrame(absl::string_view bytes, const LedgerPosition& position) {
  if (bytes.size() < kFrameHeaderBytes) {
    return absl::OutOfRangeError(
        absl::StrCat("got ", bytes.size(), " bytes of a header of ", kFrameHeaderBytes, " bytes"));
  }
  const auto length = Get<uint32_t>(bytes, 0);
  Frame frame;
  frame.bytes = FrameBytes(length);
  if (frame.bytes == 0) {
    return absl::DataLossError(
        absl::StrCat("length: got ", length, " bytes, expected at most ", kMostPayloadBytes));
  }
  if (frame.bytes > bytes.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("got ", bytes.size(), " bytes of a record of ", frame.bytes, " bytes"));
  }
  frame.type = Get<uint32_t>(bytes, kTypeAt) & ~kBeginsGroup;
  frame.number = Get<uint64_t>(bytes, kNumberAt);
  frame.chain = Get<uint64_t>(bytes, kChainAt);
  frame.payload = bytes.substr(kFrameHeaderBytes, length);
  if (frame.number != position.number) {
    return Damaged("number of the record", frame.number, position.number);
  }
  const uint64_t chain = ChainOf(position.chain, bytes, frame.payload);
  if (frame.chain != chain) return Damaged("chain", frame.chain, chain);
  const size_t end = kFrameHeaderBytes + length;
  if (!IsZero(bytes.substr(end, frame.bytes - end))) {
    return absl::DataLossError("padding: got other bytes than zeros");
  }
  return frame;
}

bool HasLaterFrame(absl::string_view bytes, const LedgerPosition& position) {
  for (size_t at = 0; at + kFrameHeaderBytes <= bytes.size(); at += kFrameAlignment) {
    if (HasSuccessor(bytes.substr(at))) return true;
    if (FollowsDamaged(bytes.substr(0, at), bytes.substr(at), position)) return true;
  }
  return false;
}

bool MayBeTorn(absl::string_view bytes, uint32_t type, const LedgerPosition& position) {
  const absl::string_view header = bytes.substr(0, kChainAt);
  if (header.size() <= kTypeAt || IsZero(header)) return true;
  std::string expected(header.substr(0, kTypeAt));  // any length
  Put(type, &expected);
  Put(position.number, &expected);
  return absl::StartsWith(expected, header);
}

bool HasWrongLength(absl::string_view bytes, const LedgerPosition& position) {
  if (bytes.size() < kFrameHeaderBytes || bytes.size() % kFrameAlignment != 0) return false;
  const size_t most = bytes.size() - kFrameHeaderBytes;
  for (size_t length = most - std::min(most, kFrameAlignment - 1); length <= most; ++length) {
    std::string header;
    Put(static_cast<uint32_t>(length), &header);
    header.append(bytes.data() + kTypeAt, kChainAt - kTypeAt);
    const uint64_t chain = ChainOf(position.chain, header, bytes.substr(kFrameHeaderBytes, length));
    if (Get<uint64_t>(bytes, kChainAt) == chain) return true;
  }
  return false;
}

}  // namespace gradwire
