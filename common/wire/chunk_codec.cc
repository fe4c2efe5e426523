#include "common/wire/chunk_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/view.h"

namespace gradwire {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Field numbers of chunk.proto.
enum Field {
  kRunId = 1,
  kEpoch = 2,
  kGeneration = 3,
  kStep = 4,
  kRank = 5,
  kBucket = 6,
  kOffset = 7,
  kTotal = 8,
  kDtype = 9,
  kChecksum = 10,
  kHop = 11,
  kLayout = 12,
  kCovers = 13,
  kClocks = 14,
  kPayload = 15,
  kSlot = 16,
  kSlotBytes = 17,
};

// One double and two varints, each with its tag.
constexpr size_t kMaxClocksBytes = 31;
// run_id 16 + 2 bytes, eleven varints of at most 10 + 1, fixed64 + 1, clocks + 2, payload length;
// two varints of at most 5 + 2.
constexpr size_t kMaxHeaderBytes = 187 + kMaxClocksBytes + 2 + 14;

uint8_t* WriteVarint(Field field, uint64_t value, uint8_t* out) {
  if (value == 0) return out;  // proto3 omits default values
  out = WireFormatLite::WriteTagToArray(field, WireFormatLite::WIRETYPE_VARINT, out);
  return CodedOutputStream::WriteVarint64ToArray(value, out);
}

// Clocks are omitted unless the layout is served.
uint8_t* WriteClocks(const ChunkClocks& clocks, uint8_t* out) {
  v1::Clocks message;
  message.set_rate(clocks.rate);
  message.set_slowest(clocks.slowest);
  message.set_fastest(clocks.fastest);
  const size_t bytes = message.ByteSizeLong();
  if (bytes == 0) return out;
  out = WireFormatLite::WriteTagToArray(kClocks, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, out);
  out = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(bytes), out);
  return message.SerializeWithCachedSizesToArray(out);
}

// XXH3_64bits of the other header fields, see chunk.proto.
uint64_t HeaderChecksum(const ChunkHeader& header) {
  uint64_t rate;
  static_assert(sizeof(rate) == sizeof(header.clocks.rate), "a binary64");
  std::memcpy(&rate, &header.clocks.rate, sizeof(rate));
  const uint64_t values[] = {header.epoch.value(),
                             header.generation.value(),
                             static_cast<uint64_t>(header.layout.value()),
                             header.step.value(),
                             static_cast<uint64_t>(header.rank.value()),
                             static_cast<uint64_t>(header.bucket.value()),
                             header.offset,
                             header.total,
                             static_cast<uint64_t>(header.dtype),
                             header.hop,
                             header.covers,
                             rate,
                             header.clocks.slowest,
                             header.clocks.fastest,
                             header.slot,
                             header.slot_bytes};
  const size_t count = std::size(values) - (header.slot == 0 ? 2 : 0);
  uint8_t bytes[sizeof(RunId) + sizeof(values)];
  uint8_t* out =
      CodedOutputStream::WriteRawToArray(header.run_id.data(), header.run_id.size(), bytes);
  for (size_t i = 0; i < count; ++i) {
    out = CodedOutputStream::WriteLittleEndian64ToArray(values[i], out);
  }
  return Checksum(absl::Span<const uint8_t>(bytes, out - bytes));
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed chunk: ", what));
}

absl::Status TooLong(uint64_t bytes) {
  return Malformed(
      absl::StrCat("got ", bytes, " bytes, expected a payload of at most ", kMaxPayloadBytes));
}

// Reads one varint, at most `limit`, into `value`.
bool ReadVarint(CodedInputStream* in, uint64_t limit, uint64_t* value) {
  return in->ReadVarint64(value) && *value <= limit;
}

// Reads a tag, as strictly as protobuf's own parsers: at most 5 bytes, no field 0. Also refuses
// groups, which proto3 does not have.
bool ReadTag(CodedInputStream* in, uint32_t* tag) {
  const int start = in->CurrentPosition();
  uint64_t value = 0;
  if (!ReadVarint(in, std::numeric_limits<uint32_t>::max(), &value)) return false;
  *tag = static_cast<uint32_t>(value);
  const auto type = WireFormatLite::GetTagWireType(*tag);
  return in->CurrentPosition() - start <= 5 && WireFormatLite::GetTagFieldNumber(*tag) != 0 &&
         type != WireFormatLite::WIRETYPE_START_GROUP && type != WireFormatLite::WIRETYPE_END_GROUP;
}

bool ReadRunId(CodedInputStream* in, RunId* run_id) {
  uint32_t size = 0;
  return in->ReadVarint32(&size) && size == run_id->size() && in->ReadRaw(run_id->data(), size);
}

bool ReadClocks(CodedInputStream* in, ChunkClocks* clocks) {
  uint32_t size = 0;
  std::string bytes;
  // A field that comes in parts is the concatenation of the parts.
  v1::Clocks message;
  message.set_rate(clocks->rate);
  message.set_slowest(clocks->slowest);
  message.set_fastest(clocks->fastest);
  if (!in->ReadVarint32(&size) || size > kMaxClocksBytes || !in->ReadString(&bytes, size) ||
      !message.MergeFromString(bytes)) {
    return false;
  }
  *clocks = {message.rate(), message.slowest(), message.fastest()};
  return true;
}

// Reads the field after `tag`, which must not be the payload's.
bool ReadField(CodedInputStream* in, uint32_t tag, ChunkHeader* header) {
  constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
  constexpr uint64_t kInt = std::numeric_limits<int>::max();
  const int field = WireFormatLite::GetTagFieldNumber(tag);
  const auto type = WireFormatLite::GetTagWireType(tag);
  if (field == kRunId && type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
    return ReadRunId(in, &header->run_id);
  }
  if (field == kClocks && type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
    return ReadClocks(in, &header->clocks);
  }
  if (field == kChecksum && type == WireFormatLite::WIRETYPE_FIXED64) {
    return in->ReadLittleEndian64(&header->checksum);
  }
  if (type != WireFormatLite::WIRETYPE_VARINT) return WireFormatLite::SkipField(in, tag);
  const bool is_int = field == kRank || field == kBucket || field == kDtype || field == kHop ||
                      field == kLayout || field == kSlot || field == kSlotBytes;
  uint64_t value = 0;
  if (!ReadVarint(in, is_int ? kInt : kAny, &value)) return false;
  switch (field) {
    case kEpoch:
      header->epoch = CoordinatorEpoch(value);
      break;
    case kGeneration:
      header->generation = Generation(value);
      break;
    case kStep:
      header->step = Step(value);
      break;
    case kRank:
      header->rank = Rank(static_cast<int>(value));
      break;
    case kBucket:
      header->bucket = Bucket(static_cast<int>(value));
      break;
    case kOffset:
      header->offset = value;
      break;
    case kTotal:
      header->total = value;
      break;
    case kDtype:
      header->dtype = static_cast<v1::DType>(value);
      break;
    case kHop:
      header->hop = static_cast<uint32_t>(value);
      break;
    case kLayout:
      header->layout = LayoutId(static_cast<int>(value));
      break;
    case kCovers:
      header->covers = value;
      break;
    case kSlot:
      header->slot = static_cast<uint32_t>(value);
      break;
    case kSlotBytes:
      header->slot_bytes = static_cast<uint32_t>(value);
      break;
    default:
      break;  // a later version's field
  }
  return true;
}

// Returns the offset of the payload, after its tag, in a message of `message_bytes`.
absl::StatusOr<size_t> ReadPayloadStart(CodedInputStream* in, uint32_t tag, size_t message_bytes) {
  uint64_t size = 0;
  if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
      !in->ReadVarint64(&size)) {
    return Malformed("cannot read the length of the payload");
  }
  const size_t start = in->CurrentPosition();
  if (size == message_bytes - start && size <= kMaxPayloadBytes) return start;
  if (size > kMaxPayloadBytes) return TooLong(size);
  return Malformed(absl::StrCat("got ", message_bytes - start, " bytes after the header, ",
                                "expected a payload of ", size, " as the last field"));
}

// The same, after reading all fields before it.
absl::StatusOr<size_t> ReadHeader(CodedInputStream* in, size_t message_bytes, ChunkHeader* header) {
  header->dtype = v1::DTYPE_UNSPECIFIED;
  bool has_run_id = false;
  size_t payload_start = message_bytes;  // an empty payload is omitted on the wire
  while (static_cast<size_t>(in->CurrentPosition()) < message_bytes) {
    uint32_t tag = 0;
    if (!ReadTag(in, &tag)) return Malformed("not a protobuf message");
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (field == kPayload) {
      absl::StatusOr<size_t> start = ReadPayloadStart(in, tag, message_bytes);
      if (!start.ok()) return start;
      payload_start = *start;
      break;
    }
    if (!ReadField(in, tag, header)) {
      return Malformed(absl::StrCat("field ", field, " is malformed or out of range"));
    }
    has_run_id |= tag == WireFormatLite::MakeTag(kRunId, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  }
  if (!has_run_id) return Malformed("got no run_id");
  return payload_start;
}

// Returns the pieces of `slices` after the first `skip` bytes.
ByteSpans PiecesBehind(const std::vector<grpc::Slice>& slices, size_t skip) {
  ByteSpans pieces;
  for (const grpc::Slice& slice : slices) {
    if (skip >= slice.size()) {
      skip -= slice.size();
      continue;
    }
    pieces.emplace_back(slice.begin() + skip, slice.size() - skip);
    skip = 0;
  }
  return pieces;
}

}  // namespace

uint64_t WireChecksum(const ChunkHeader& header) {
  return header.checksum ^ HeaderChecksum(header);
}

std::string EncodeChunkHeader(const ChunkHeader& header, uint64_t payload_bytes) {
  uint8_t bytes[kMaxHeaderBytes];
  uint8_t* out = bytes;
  out = WireFormatLite::WriteTagToArray(kRunId, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, out);
  out = CodedOutputStream::WriteVarint32ToArray(header.run_id.size(), out);
  out = CodedOutputStream::WriteRawToArray(header.run_id.data(), header.run_id.size(), out);
  out = WriteVarint(kEpoch, header.epoch.value(), out);
  out = WriteVarint(kGeneration, header.generation.value(), out);
  out = WriteVarint(kStep, header.step.value(), out);
  out = WriteVarint(kRank, header.rank.value(), out);
  out = WriteVarint(kBucket, header.bucket.value(), out);
  out = WriteVarint(kOffset, header.offset, out);
  out = WriteVarint(kTotal, header.total, out);
  out = WriteVarint(kDtype, header.dtype, out);
  if (const uint64_t checksum = WireChecksum(header); checksum != 0) {
    out = WireFormatLite::WriteTagToArray(kChecksum, WireFormatLite::WIRETYPE_FIXED64, out);
    out = CodedOutputStream::WriteLittleEndian64ToArray(checksum, out);
  }
  out = WriteVarint(kHop, header.hop, out);
  out = WriteVarint(kLayout, header.layout.value(), out);
  out = WriteVarint(kCovers, header.covers, out);
  out = WriteClocks(header.clocks, out);
  out = WriteVarint(kSlot, header.slot, out);
  out = WriteVarint(kSlotBytes, header.slot_bytes, out);
  if (payload_bytes > 0) {
    out = WireFormatLite::WriteTagToArray(kPayload, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, out);
    out = CodedOutputStream::WriteVarint64ToArray(payload_bytes, out);
  }
  return std::string(bytes, out);
}

grpc::ByteBuffer EncodeChunk(const ChunkHeader& header, std::vector<grpc::Slice> payload) {
  uint64_t bytes = 0;
  for (const grpc::Slice& slice : payload) bytes += slice.size();
  payload.insert(payload.begin(), grpc::Slice(EncodeChunkHeader(header, bytes)));
  return grpc::ByteBuffer(payload.data(), payload.size());
}

absl::StatusOr<Chunk> DecodeChunk(grpc::ByteBuffer* buffer) {
  const size_t message_bytes = buffer->Length();
  if (message_bytes > kMaxPayloadBytes + kMaxHeaderBytes) {
    return TooLong(message_bytes);
  }
  Chunk chunk;
  size_t payload_start = 0;
  {
    grpc::ProtoBufferReader reader(buffer);
    if (!reader.status().ok()) return Malformed(reader.status().error_message());
    CodedInputStream in(&reader);
    absl::StatusOr<size_t> start = ReadHeader(&in, message_bytes, &chunk.header);
    if (!start.ok()) return start.status();
    payload_start = *start;
  }
  // If the header was changed on its way, the result differs from the payload's checksum.
  chunk.header.checksum = WireChecksum(chunk.header);
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!buffer->Dump(slices.get()).ok()) return Malformed("cannot read its slices");
  chunk.payload = PiecesBehind(*slices, payload_start);
  chunk.owner = std::move(slices);
  return chunk;
}

}  // namespace gradwire
