#include "common/wire/chunk_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "common/wire/judge.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

ChunkHeader SomeHeader() {
  ChunkHeader header;
  std::iota(header.run_id.begin(), header.run_id.end(), 1);
  header.epoch = CoordinatorEpoch(1);
  header.generation = Generation(300);
  header.step = Step(70000);
  header.rank = Rank(3);
  header.bucket = Bucket(2);
  header.offset = uint64_t{5} << 32;
  header.total = std::numeric_limits<uint64_t>::max();
  header.dtype = v1::DTYPE_FLOAT32;
  header.checksum = 0x0123456789abcdef;
  header.hop = 29;
  header.clocks = {0.1, 300, std::numeric_limits<uint64_t>::max()};
  return header;
}

v1::Chunk ToMessage(const ChunkHeader& header, const std::string& payload) {
  v1::Chunk chunk;
  chunk.set_run_id(std::string(header.run_id.begin(), header.run_id.end()));
  chunk.set_epoch(header.epoch.value());
  chunk.set_generation(header.generation.value());
  chunk.set_step(header.step.value());
  chunk.set_rank(header.rank.value());
  chunk.set_bucket(header.bucket.value());
  chunk.set_offset(header.offset);
  chunk.set_total(header.total);
  chunk.set_dtype(header.dtype);
  chunk.set_checksum(WireChecksum(header));
  chunk.set_hop(header.hop);
  const ChunkClocks& clocks = header.clocks;
  if (clocks.rate != 0 || clocks.slowest != 0 || clocks.fastest != 0) {
    chunk.mutable_clocks()->set_rate(clocks.rate);
    chunk.mutable_clocks()->set_slowest(clocks.slowest);
    chunk.mutable_clocks()->set_fastest(clocks.fastest);
  }
  chunk.set_payload(payload);
  return chunk;
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  return bytes;
}

// The bytes in slices of `slice_bytes` each.
grpc::ByteBuffer Cut(const std::string& bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += slice_bytes) {
    slices.emplace_back(bytes.substr(i, slice_bytes));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string PayloadOf(const Chunk& chunk) {
  std::string bytes(TotalBytes(chunk.payload), '\0');
  CopyTo(chunk.payload, reinterpret_cast<uint8_t*>(&bytes[0]));
  return bytes;
}

TEST(ChunkCodecTest, EncodeChunk_AnyPayload_EqualsProtobufByteForByte) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{1} << 20}) {
    const std::string payload(size, 'x');
    EXPECT_TRUE(Flatten(EncodeChunk(SomeHeader(), {grpc::Slice(payload)})) ==
                ToMessage(SomeHeader(), payload).SerializeAsString())
        << size;
  }
}

TEST(ChunkCodecTest, EncodeChunk_DefaultValues_EqualsProtobufByteForByte) {
  ChunkHeader header;
  header.dtype = v1::DTYPE_UNSPECIFIED;
  EXPECT_EQ(Flatten(EncodeChunk(header, {grpc::Slice(std::string("ab"))})),
            ToMessage(header, "ab").SerializeAsString());
}

TEST(ChunkCodecTest, DecodeChunk_MessageInSlicesOfAnySize_AllFieldsAndPayload) {
  const std::string payload = "0123456789";
  const std::string bytes = ToMessage(SomeHeader(), payload).SerializeAsString();
  for (const size_t slice_bytes : {size_t{1}, size_t{3}, size_t{60}, bytes.size()}) {
    grpc::ByteBuffer buffer = Cut(bytes, slice_bytes);
    const absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(ToMessage(chunk->header, PayloadOf(*chunk)).SerializeAsString(), bytes);
  }
}

TEST(ChunkCodecTest, DecodeChunk_EmptyPayload_NoPieces) {
  grpc::ByteBuffer buffer = Cut(ToMessage(SomeHeader(), "").SerializeAsString(), 1000);
  const absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(TotalBytes(chunk->payload), 0);
}

TEST(ChunkCodecTest, DecodeChunk_UnknownField_IsSkipped) {
  v1::Chunk message = ToMessage(SomeHeader(), "");
  std::string bytes = message.SerializeAsString() + std::string("\xa0\x06\x05", 3);  // field 100
  bytes += ToMessage(ChunkHeader{}, "pay").SerializeAsString().substr(20);
  grpc::ByteBuffer buffer = Cut(bytes, 1000);
  const absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(PayloadOf(*chunk), "pay");
}

absl::Status DecodeError(const std::string& bytes) {
  grpc::ByteBuffer buffer = Cut(bytes, 1 << 20);
  return DecodeChunk(&buffer).status();
}

TEST(ChunkCodecTest, DecodeChunk_TruncatedPayload_InvalidArgument) {
  std::string bytes = ToMessage(SomeHeader(), "0123456789").SerializeAsString();
  bytes.pop_back();
  const absl::Status status = DecodeError(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("got 9 bytes after the header, expected a payload of 10"));
}

TEST(ChunkCodecTest, DecodeChunk_PayloadIsNotLast_InvalidArgument) {
  const std::string bytes =
      ToMessage(SomeHeader(), "abc").SerializeAsString() + std::string("\x58\x01");
  EXPECT_THAT(std::string(DecodeError(bytes).message()), HasSubstr("as the last field"));
}

TEST(ChunkCodecTest, DecodeChunk_Garbage_InvalidArgument) {
  EXPECT_EQ(DecodeError("\xff\xff\xff\xff garbage").code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChunkCodecTest, DecodeChunk_ShortRunId_InvalidArgumentNamesField) {
  v1::Chunk message;
  message.set_run_id("short");
  EXPECT_THAT(std::string(DecodeError(message.SerializeAsString()).message()),
              HasSubstr("field 1 is malformed or out of range"));
}

TEST(ChunkCodecTest, DecodeChunk_EndsInsideATag_InvalidArgument) {
  const std::string bytes = ToMessage(SomeHeader(), "").SerializeAsString() + "\xe6\xe6";
  EXPECT_EQ(DecodeError(bytes),
            absl::InvalidArgumentError("malformed chunk: not a protobuf message"));
}

TEST(ChunkCodecTest, DecodeChunk_NoRunId_InvalidArgument) {
  v1::Chunk message;
  message.set_payload("abc");
  EXPECT_EQ(DecodeError(message.SerializeAsString()),
            absl::InvalidArgumentError("malformed chunk: got no run_id"));
}

TEST(ChunkCodecTest, DecodeChunk_PayloadIsAVarint_InvalidArgument) {
  const std::string bytes =
      ToMessage(SomeHeader(), "").SerializeAsString() + std::string("\x78\x00", 2);
  EXPECT_EQ(DecodeError(bytes),
            absl::InvalidArgumentError("malformed chunk: cannot read the length of the payload"));
}

TEST(ChunkCodecTest, DecodeChunk_RankAboveInt32_InvalidArgumentNamesField) {
  v1::Chunk message = ToMessage(SomeHeader(), "abc");
  message.set_rank(0x80000000u);
  EXPECT_THAT(std::string(DecodeError(message.SerializeAsString()).message()),
              HasSubstr("field 5 is malformed or out of range"));
}

TEST(ChunkCodecTest, DecodeChunk_PayloadsUpToTheLimit_AreTaken) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{3}, size_t{4} << 20}) {
    const std::string payload(size, 'x');
    grpc::ByteBuffer buffer = Cut(ToMessage(SomeHeader(), payload).SerializeAsString(), 65535);
    const absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_TRUE(PayloadOf(*chunk) == payload) << size;
  }
}

TEST(ChunkCodecTest, DecodeChunk_PayloadAboveLimit_InvalidArgument) {
  for (const size_t above : {1, 1000, 20 << 20}) {
    const std::string bytes =
        ToMessage(SomeHeader(), std::string(kMaxPayloadBytes + above, 'x')).SerializeAsString();
    const absl::Status status = DecodeError(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("bytes, expected a payload of at most 4194304"));
  }
}

TEST(ChunkCodecTest, DecodeChunk_EveryTruncationAndFlip_NeverAccepted) {
  // No crash, and no flip that changes a meaning, wherever it is, but the checksum tells of it.
  // (The tenth byte of a varint has bits that mean nothing.)
  ChunkHeader header = SomeHeader();
  const std::string payload = "0123456789abcdef";
  header.checksum = Checksum({reinterpret_cast<const uint8_t*>(payload.data()), payload.size()});
  const std::string bytes = ToMessage(header, payload).SerializeAsString();
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(i > 0 && DecodeError(bytes.substr(0, i)).ok() && i > bytes.size() - payload.size())
        << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      grpc::ByteBuffer buffer = Cut(flipped, 7);
      const absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
      if (!chunk.ok() || !CheckPayload(*chunk).ok()) continue;
      EXPECT_EQ(EncodeChunkHeader(chunk->header, 16), EncodeChunkHeader(header, 16)) << i;
      EXPECT_EQ(PayloadOf(*chunk), payload) << i;
    }
  }
}

TEST(ChunkCodecTest, EncodeChunk_PayloadInASlot_EqualsProtobufAndNoFlipGoesUnnoticed) {
  ChunkHeader header = SomeHeader();
  header.slot = 9;
  header.slot_bytes = 512 << 10;
  v1::Chunk message = ToMessage(header, "");
  message.set_slot(9);
  message.set_slot_bytes(512 << 10);
  const std::string bytes = message.SerializeAsString();
  EXPECT_EQ(Flatten(EncodeChunk(header, {})), bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      grpc::ByteBuffer buffer = Cut(flipped, 7);
      const absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
      if (!chunk.ok() || chunk->header.checksum != header.checksum) continue;
      EXPECT_EQ(EncodeChunkHeader(chunk->header, 0), EncodeChunkHeader(header, 0)) << i;
    }
  }
}

TEST(ChecksumTest, Checksum_AnyPieces_SameAsWhole) {
  std::string bytes(100000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint64_t whole = Checksum({data, bytes.size()});
  EXPECT_EQ(Checksum(ByteSpans{{data, 1}, {}, {data + 1, 65535}, {data + 65536, 34464}}), whole);
}

}  // namespace
}  // namespace gradwire
