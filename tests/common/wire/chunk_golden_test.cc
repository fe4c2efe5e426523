// The bytes on the wire, written out: they must not change within v1.

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/fold/fold.h"
#include "common/wire/chunk_codec.h"
#include "tests/support/hex.h"

namespace gradwire::chunk_golden_test {
namespace {

using testing::BytesOfHex;

struct Golden {
  const char* name;
  v1::DType dtype;
  const char* header;   // all fields up to the payload's bytes, in hexadecimal
  const char* payload;  // likewise
};

// run_id 00 01 … 0f, epoch 1, generation 300, step 70000, rank 3, bucket 2, offset 8,
// total 16 (bytes: 19), hop 5. The payload is 1 and -2.5, for bytes 00 01 02.
constexpr Golden kGolden[] = {
    {"float32", v1::DTYPE_FLOAT32,
     "0a10000102030405060708090a0b0c0d0e0f"
     "100118ac0220f0a204280330023808401048015194a851d0b6524fa758057a08",
     "0000803f000020c0"},
    {"bytes", v1::DTYPE_BYTES,
     "0a10000102030405060708090a0b0c0d0e0f"
     "100118ac0220f0a2042803300238084013480251e32d56832c74432558057a03",
     "000102"},
    {"bfloat16", v1::DTYPE_BFLOAT16,
     "0a10000102030405060708090a0b0c0d0e0f"
     "100118ac0220f0a20428033002380840104803517074224f761b9eb758057a04",
     "803f20c0"},
    {"float16", v1::DTYPE_FLOAT16,
     "0a10000102030405060708090a0b0c0d0e0f"
     "100118ac0220f0a2042803300238084010480451432d3edae28a6d0358057a04",
     "003c00c1"},
};

std::string Hex(const std::string& bytes) { return absl::BytesToHexString(bytes); }

std::string PayloadOf(v1::DType dtype) {
  if (dtype == v1::DTYPE_BYTES) return std::string("\x00\x01\x02", 3);
  const std::vector<float> values = {1.0f, -2.5f};
  std::string payload(dtype == v1::DTYPE_FLOAT32 ? 8 : 4, '\0');
  Narrow(values, dtype, reinterpret_cast<uint8_t*>(&payload[0]));
  return payload;
}

uint64_t ChecksumOf(const std::string& payload) {
  return Checksum({reinterpret_cast<const uint8_t*>(payload.data()), payload.size()});
}

ChunkHeader HeaderOf(v1::DType dtype) {
  ChunkHeader header;
  for (size_t i = 0; i < header.run_id.size(); ++i) header.run_id[i] = static_cast<uint8_t>(i);
  header.epoch = CoordinatorEpoch(1);
  header.generation = Generation(300);
  header.step = Step(70000);
  header.rank = Rank(3);
  header.bucket = Bucket(2);
  header.offset = 8;
  header.total = dtype == v1::DTYPE_BYTES ? 19 : 16;
  header.dtype = dtype;
  header.checksum = ChecksumOf(PayloadOf(dtype));
  header.hop = 5;
  return header;
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  return bytes;
}

TEST(ChunkGoldenTest, EncodeChunk_EachDtype_ExactlyTheseBytes) {
  for (const Golden& golden : kGolden) {
    const std::string payload = PayloadOf(golden.dtype);
    EXPECT_EQ(Hex(payload), golden.payload) << golden.name;
    EXPECT_EQ(Hex(Flatten(EncodeChunk(HeaderOf(golden.dtype), {grpc::Slice(payload)}))),
              absl::StrCat(golden.header, golden.payload))
        << golden.name;
  }
}

TEST(ChunkGoldenTest, ParseFromString_EachDtype_GeneratedClassReadsThem) {
  for (const Golden& golden : kGolden) {
    v1::Chunk chunk;
    ASSERT_TRUE(chunk.ParseFromString(BytesOfHex(golden.header) + BytesOfHex(golden.payload)));
    EXPECT_EQ(Hex(chunk.run_id()), "000102030405060708090a0b0c0d0e0f");
    EXPECT_EQ(chunk.epoch(), 1);
    EXPECT_EQ(chunk.generation(), 300);
    EXPECT_EQ(chunk.step(), 70000);
    EXPECT_EQ(chunk.rank(), 3);
    EXPECT_EQ(chunk.bucket(), 2);
    EXPECT_EQ(chunk.offset(), 8);
    EXPECT_EQ(chunk.total(), golden.dtype == v1::DTYPE_BYTES ? 19 : 16);
    EXPECT_EQ(chunk.dtype(), golden.dtype);
    EXPECT_EQ(chunk.checksum(), WireChecksum(HeaderOf(golden.dtype)));
    EXPECT_EQ(chunk.hop(), 5);
    EXPECT_EQ(Hex(chunk.payload()), golden.payload);
  }
}

TEST(ChunkGoldenTest, DecodeChunk_SlicesThatSplitAnElement_SameValues) {
  for (const Golden& golden : kGolden) {
    if (golden.dtype == v1::DTYPE_BYTES) continue;
    const std::string bytes = BytesOfHex(golden.header) + BytesOfHex(golden.payload);
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const grpc::Slice slices[] = {grpc::Slice(bytes.substr(0, cut)),
                                    grpc::Slice(bytes.substr(cut))};
      grpc::ByteBuffer buffer(slices, 2);
      const absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
      ASSERT_TRUE(chunk.ok()) << chunk.status();
      std::vector<float> values(2);
      Widen(chunk->payload, golden.dtype, absl::MakeSpan(values));
      EXPECT_EQ(values, (std::vector<float>{1.0f, -2.5f})) << golden.name << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace gradwire::chunk_golden_test
