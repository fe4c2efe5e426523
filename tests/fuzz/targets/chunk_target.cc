// All that happens to a received chunk: decoding, judgement of the header, checksum, fold, sum of a
// ring hop, widening, an aggregator.
//
//   input[0]   what to set right behind the decoder, so that later stages are
//              reached: bit 0 run_id, 1 epoch and generation, 2 step, 3 checksum
//   input[1]   bytes in each slice that the message comes in, less one
//   the rest   the message

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "common/aggregation/aggregator.h"
#include "common/compress/codec.h"
#include "common/fold/fold.h"
#include "common/wire/chunk_codec.h"
#include "common/wire/judge.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/backends/hops/hop_plan.h"
#include "worker/backends/hops/hop_plans.h"
#include "worker/backends/hops/hop_position.h"

namespace gradwire {
namespace {

constexpr int kWorldSize = 2;
constexpr size_t kControlBytes = 2;
constexpr uint64_t kChunkBytes = 64;

View TestView() {
  View view;
  view.run_id.fill(7);
  view.epoch = CoordinatorEpoch(1);
  view.generation = Generation(1);
  view.self = Incarnation(2);  // carries rank 1; its left neighbour is rank 0
  view.world_size = kWorldSize;
  view.members = {{Incarnation(1), "", {Rank(0)}}, {Incarnation(2), "", {Rank(1)}}};
  view.chunk_bytes = kChunkBytes;
  return view;
}

const std::vector<BucketSpec>& Buckets() {
  static const auto* const buckets = new std::vector<BucketSpec>{
      {192, v1::DTYPE_FLOAT32}, {66, v1::DTYPE_BFLOAT16}, {64, v1::DTYPE_FLOAT16},
      {33, v1::DTYPE_BYTES},    {4, v1::DTYPE_FLOAT32},   {192, v1::DTYPE_INT8},
      {192, v1::DTYPE_SPARSE}};
  return *buckets;
}

// Memory of exactly this size, so that a step too far is noticed.
std::unique_ptr<uint8_t[]> Exactly(uint64_t bytes) {
  return std::unique_ptr<uint8_t[]>(new uint8_t[bytes]());
}

grpc::ByteBuffer Cut(absl::string_view bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(slice_bytes, bytes.size()))) {
    slices.emplace_back(std::string(bytes.substr(0, slice_bytes)));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Flatten(const ByteSpans& pieces) {
  std::string bytes(TotalBytes(pieces), '\0');
  CopyTo(pieces, reinterpret_cast<uint8_t*>(&bytes[0]));
  return bytes;
}

bool SameClocks(const ChunkClocks& clocks, const v1::Clocks& message) {
  const double rate = message.rate();
  return std::memcmp(&clocks.rate, &rate, sizeof(rate)) == 0 &&
         clocks.slowest == message.slowest() && clocks.fastest == message.fastest();
}

bool SameHeader(const ChunkHeader& header, const v1::Chunk& message) {
  return std::string(header.run_id.begin(), header.run_id.end()) == message.run_id() &&
         header.epoch.value() == message.epoch() &&
         header.generation.value() == message.generation() &&
         header.step.value() == message.step() &&
         static_cast<uint32_t>(header.rank.value()) == message.rank() &&
         static_cast<uint32_t>(header.bucket.value()) == message.bucket() &&
         header.offset == message.offset() && header.total == message.total() &&
         header.dtype == message.dtype() && WireChecksum(header) == message.checksum() &&
         header.hop == message.hop() && header.covers == message.covers() &&
         static_cast<uint32_t>(header.layout.value()) == message.layout() &&
         SameClocks(header.clocks, message.clocks());
}

// Whether a decoder that follows the protocol has to take this message.
bool IsOrdinary(const v1::Chunk& message) {
  constexpr uint32_t kInt = std::numeric_limits<int>::max();
  return message.run_id().size() == 16 && message.rank() <= kInt && message.bucket() <= kInt &&
         message.dtype() >= 0 && message.hop() <= kInt && message.layout() <= kInt &&
         message.payload().size() <= kMaxPayloadBytes &&
         message.GetReflection()->GetUnknownFields(message).empty() &&
         message.clocks().GetReflection()->GetUnknownFields(message.clocks()).empty();
}

// An accepted chunk is also a v1.Chunk of the same meaning, and encodes again.
std::string CheckAccepted(const Chunk& chunk, absl::string_view bytes) {
  v1::Chunk message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return "DecodeChunk took what protobuf does not";
  }
  const std::string payload = Flatten(chunk.payload);
  if (payload.size() > kMaxPayloadBytes) return "DecodeChunk took too long a payload";
  if (!SameHeader(chunk.header, message)) return "DecodeChunk and protobuf read other fields";
  if (payload != message.payload()) return "DecodeChunk and protobuf read other payloads";
  std::string again = EncodeChunkHeader(chunk.header, payload.size()) + payload;
  message.DiscardUnknownFields();
  if (message.clocks().ByteSizeLong() == 0) message.clear_clocks();  // the same as none
  if (again != message.SerializeAsString()) return "EncodeChunk and protobuf write other bytes";
  return "";
}

std::string CheckDecode(absl::string_view bytes, const absl::StatusOr<Chunk>& chunk) {
  if (chunk.ok()) return CheckAccepted(*chunk, bytes);
  if (chunk.status().code() != absl::StatusCode::kInvalidArgument) {
    return "DecodeChunk gave another error than InvalidArgument";
  }
  v1::Chunk message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return "";
  if (!IsOrdinary(message) || message.SerializeAsString() != bytes) return "";
  return "DecodeChunk refused what protobuf wrote";
}

void SetRight(uint8_t what, Chunk* chunk) {
  const View view = TestView();
  if (what & 1) chunk->header.run_id = view.run_id;
  if (what & 2) chunk->header.epoch = view.epoch;
  if (what & 2) chunk->header.generation = view.generation;
  if (what & 4) chunk->header.step = Step(0);
  chunk->header.layout = LayoutId(0);  // others are waited for
  if (what & 8) chunk->header.checksum = Checksum(chunk->payload);
}

std::string CheckJudged(const Chunk& chunk) {
  const ChunkHeader& header = chunk.header;
  const BucketSpec& bucket = Buckets()[header.bucket.value()];
  const uint64_t bytes = CoveredBytes(chunk);
  const uint64_t element_bytes = ElementBytes(bucket.dtype);
  if (header.offset > bucket.bytes || bytes > bucket.bytes - header.offset) {
    return "JudgeHeader took a payload beyond its bucket";
  }
  if (header.dtype != bucket.dtype) return "JudgeHeader took another dtype";
  if (bytes % element_bytes != 0 || header.offset % element_bytes != 0) {
    return "JudgeHeader took part of an element";
  }
  return "";
}

// The arithmetic over received pieces, into memory of exactly the right size.
std::string CheckSums(const Chunk& chunk) {
  const v1::DType dtype = chunk.header.dtype;
  const uint64_t bytes = TotalBytes(chunk.payload);
  if (dtype == v1::DTYPE_BYTES || bytes == 0) return "";
  const std::unique_ptr<uint8_t[]> mean = Exactly(bytes), sum = Exactly(bytes);
  Fold({chunk.payload, chunk.payload}, dtype, {{0, bytes, 1}}, {mean.get(), bytes});
  const std::unique_ptr<float[]> wide(new float[bytes / ElementBytes(dtype)]);
  Widen(chunk.payload, dtype, {wide.get(), bytes / ElementBytes(dtype)});
  AddScaled(chunk.payload, dtype, wide.get(), 0.5f, {sum.get(), bytes});
  // ((x + x) / 2) twice, the same way.
  return std::equal(mean.get(), mean.get() + bytes, sum.get()) ? "" : "Fold and AddScaled disagree";
}

// What a codec takes it decodes into exactly the elements that it covers.
void Decode(const Coding& coding, const Chunk& chunk) {
  const uint64_t count = chunk.header.covers / sizeof(float);
  if (!coding.Check(chunk.payload, count).ok()) return;
  const std::unique_ptr<float[]> out(new float[count]);
  coding.Decode(chunk.payload, {out.get(), count});
}

void RunRing(const Chunk& chunk) {
  const ChunkHeader& header = chunk.header;
  const BucketSpec& spec = Buckets()[header.bucket.value()];
  HopPlans plans(&RingTopology(), TestView());
  plans.Add(LayoutId(0), Buckets());
  const absl::StatusOr<EarlyChunks::Key> hop = plans.Judge(chunk, Buckets());
  if (!hop.ok()) return;
  const bool is_bytes = spec.dtype == v1::DTYPE_BYTES;
  const uint64_t float_bytes = is_bytes ? spec.bytes : 4 * (spec.bytes / ElementBytes(spec.dtype));
  const auto terms = Exactly(float_bytes), result = Exactly(float_bytes),
             half = Exactly(spec.bytes);
  const Transfer transfer({header.layout, header.step, header.bucket}, spec,
                          {result.get(), float_bytes}, absl::InfiniteFuture(), nullptr);
  HopPosition position(&transfer, &plans.Of(transfer.key), hop->receiver, kWorldSize,
                       transfer.result, half.get());
  position.SetTerms({terms.get(), float_bytes});
  position.has_terms = true;
  if (!position.CanTake(hop->receive, header.offset)) return;
  const absl::StatusOr<size_t> next = position.NextOf(hop->receive, header);
  if (!next.ok()) return;
  const RankPlan::Receive& receive = position.plan().receives[hop->receive];
  position.Take(receive, position.HopChunksOf(receive.hop)[*next], chunk.payload);
}

std::string RunAggregator(const Chunk& chunk) {
  Aggregator aggregator(TestView(), Shard(), AggregatorHooks());
  aggregator.AddLayout(LayoutId(0), Buckets());
  if (!aggregator.Add(chunk).ok()) return "";
  const absl::StatusOr<Verdict> again = aggregator.Add(chunk);
  if (!again.ok()) return "Aggregator refused a resend";
  if (*again == Verdict::kAccept) return "Aggregator took a chunk twice";
  return "";
}

// Good bytes of a bucket; of a coded one, all of it.
std::string PayloadOf(const BucketSpec& bucket, uint64_t bytes) {
  if (!IsCoded(bucket.dtype)) return std::string(bytes, '\x3f');
  const std::vector<float> values(bucket.bytes / sizeof(float), 1.5f);
  std::vector<float> residual(values.size());
  const std::vector<uint8_t> payload =
      CodingOf(bucket.dtype)->EncodeMean(values, absl::MakeSpan(residual));
  return std::string(payload.begin(), payload.end());
}

}  // namespace

std::string ViolatedByChunk(absl::string_view input) {
  if (input.size() < kControlBytes) return "";
  const auto what = static_cast<uint8_t>(input[0]);
  const size_t slice_bytes = static_cast<uint8_t>(input[1]) + 1;
  input.remove_prefix(kControlBytes);
  grpc::ByteBuffer buffer = Cut(input, slice_bytes);
  absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
  std::string violated = CheckDecode(input, chunk);
  if (!violated.empty() || !chunk.ok()) return violated;
  SetRight(what, &*chunk);
  violated = RunAggregator(*chunk);
  if (!violated.empty()) return violated;
  const View view = TestView();
  const ReceiverState receiver{view.run_id, view.epoch, view.generation,
                               Step(0),     kWorldSize, Buckets()};
  const absl::StatusOr<Verdict> verdict =
      JudgeHeader(chunk->header, CoveredBytes(*chunk), receiver, absl::nullopt);
  if (!verdict.ok() || *verdict != Verdict::kAccept) return "";
  violated = CheckJudged(*chunk);
  if (const Coding* coding = CodingOf(chunk->header.dtype)) {
    Decode(*coding, *chunk);
    return violated;
  }
  if (violated.empty()) violated = CheckSums(*chunk);
  if (violated.empty()) RunRing(*chunk);
  return violated;
}

// Each dtype, whole and part of a bucket, one slice and many; and bad ones that are nearly good.
std::vector<std::string> ChunkSeeds() {
  std::vector<std::string> seeds = {"", std::string(1, '\0'), std::string(2, '\xff'),
                                    std::string("\x0f\x00garbage", 9)};
  const View view = TestView();
  for (size_t b = 0; b < Buckets().size(); ++b) {
    const BucketSpec& bucket = Buckets()[b];
    for (uint64_t offset = 0; offset < bucket.bytes; offset += kChunkBytes) {
      const std::string payload = PayloadOf(bucket, std::min(kChunkBytes, bucket.bytes - offset));
      ChunkHeader header;
      header.run_id = view.run_id;
      header.epoch = view.epoch;
      header.generation = view.generation;
      header.bucket = Bucket(static_cast<int>(b));
      header.offset = offset;
      header.total = bucket.bytes;
      header.dtype = bucket.dtype;
      header.hop = static_cast<uint32_t>(offset / kChunkBytes);
      if (IsCoded(bucket.dtype)) header.covers = bucket.bytes - offset;
      if (offset == 0) header.clocks = {0.1, b, b + 1};
      const std::string message = EncodeChunkHeader(header, payload.size()) + payload;
      for (const char slice_bytes : {'\0', '\x02', '\x1c', '\xff'}) {
        seeds.push_back(std::string({'\x0f', slice_bytes}) + message);
      }
      seeds.push_back(std::string({'\0', '\xff'}) + message);
      seeds.push_back(std::string({'\x0f', '\xff'}) + message + "more");
      seeds.push_back(std::string({'\x0f', '\xff'}) + message.substr(0, message.size() - 1));
    }
  }
  return seeds;
}

}  // namespace gradwire
