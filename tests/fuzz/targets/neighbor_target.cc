// What a worker takes from its neighbour's Neighbor.Stream: parcels in order, out of order, again,
// too early, of steps to come, with a field changed, in a second stream, and a stream that ends.
//
//   input[0]  type on the wire
//   the rest  events, one after the other

#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/targets/stream_chunks.h"
#include "worker/backends/hops/hop_exchange.h"
#include "worker/backends/hops/hop_plan.h"

namespace gradwire {
namespace {

constexpr int kRanks = 2;
constexpr Rank kSelf(1), kNeighbour(0);
constexpr int kMostEvents = 24;
constexpr uint64_t kFloats = 300'000;  // two parcels in each segment of float32

enum Kind : uint8_t { kSendNext, kSendAny, kSendAgain, kExpect, kContribute, kEnd, kKinds };

v1::DType WireOf(uint8_t choice) {
  return choice % 2 == 0 ? v1::DTYPE_FLOAT32 : v1::DTYPE_BFLOAT16;
}

std::vector<BucketSpec> Buckets() {
  return {
      {kFloats * sizeof(float), v1::DTYPE_FLOAT32}, {12, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}};
}

// A parcel that the neighbour sends.
struct Incoming {
  int bucket;
  int hop;
  const HopChunk* parcel;
};

BackendOptions OptionsWith(v1::DType wire) {
  BackendOptions options;
  options.wire = wire;
  return options;
}

class Stream {
 public:
  explicit Stream(InputReader* input)
      : input_(*input),
        view_(StreamView(kRanks, 64)),
        wire_(WireOf(input->Byte())),
        specs_(WireSpecs(Buckets(), wire_)),
        plans_(&RingTopology(), view_),
        exchange_(&RingTopology(), view_, OptionsWith(wire_)) {
    exchange_.AddLayout(LayoutId(0), Buckets());
    plans_.Add(LayoutId(0), specs_);
    for (size_t bucket = 0; bucket < specs_.size(); ++bucket) ListParcels(static_cast<int>(bucket));
  }

  std::string Run() {
    for (int event = 0; event < kMostEvents && !input_.is_done() && violated_.empty(); ++event) {
      Apply(static_cast<Kind>(input_.Below(kKinds)));
    }
    return violated_;
  }

 private:
  struct Memory {
    explicit Memory(uint64_t bytes) : terms(bytes / sizeof(float) + 1), result(terms) {}
    const std::vector<float> terms;
    std::vector<float> result;
  };
  using Place = std::tuple<Step, int, int, int>;  // step, bucket, segment, hop

  void Check(bool holds, absl::string_view what) {
    if (!holds && violated_.empty()) violated_ = std::string(what);
  }

  void ListParcels(int bucket) {
    const BucketPlan& plan = plans_.Of({LayoutId(0), Step(0), Bucket(bucket)});
    for (const auto& [way, incoming] : plan.hops.incoming) {
      for (const HopChunk& parcel : plan.segments.Of(way.first)) {
        parcels_.push_back({bucket, way.second, &parcel});
      }
    }
  }

  void Apply(Kind kind) {
    switch (kind) {
      case kSendNext:
        return Send(MessageOf(parcels_[next_++ % parcels_.size()]), StreamId(1));
      case kSendAny:
        last_ = MessageOf(parcels_[input_.Below(parcels_.size())]);
        last_.set_step(last_.step() + input_.Below(8) / 6);
        return Send(last_, StreamId(1 + input_.Below(8) / 7));
      case kSendAgain:
        return Send(last_, StreamId(1));
      case kExpect:
        return Expect();
      case kContribute:
        return Contribute();
      case kEnd:
        if (input_.Byte() != 0xff) return;
        return exchange_.OnEnd(
            StreamId(1), input_.Flag() ? absl::OkStatus() : absl::UnavailableError("it broke"));
      default:
        return;
    }
  }

  v1::Chunk MessageOf(const Incoming& incoming) {
    const BucketSpec& spec = specs_[static_cast<size_t>(incoming.bucket)];
    const auto byte = static_cast<char>(input_.Below(0x7f));
    v1::Chunk chunk = StreamChunk(view_, std::string(incoming.parcel->bytes, byte));
    chunk.set_step(step_.value());
    chunk.set_rank(kNeighbour.value());
    chunk.set_bucket(static_cast<uint32_t>(incoming.bucket));
    chunk.set_hop(static_cast<uint32_t>(incoming.hop));
    chunk.set_offset(incoming.parcel->ranges.front().offset);
    chunk.set_total(spec.bytes);
    chunk.set_dtype(spec.dtype);
    return chunk;
  }

  void Send(const v1::Chunk& message, StreamId stream) {
    absl::StatusOr<Chunk> chunk = Receive(message, &input_);
    if (!chunk.ok()) return;  // see chunk_target.cc
    const ChunkHeader header = chunk->header;
    if (header.layout.value() != 0 && !failed_) return;  // it would be waited for
    const uint64_t bytes = TotalBytes(chunk->payload);
    const absl::Status status = exchange_.OnChunk(stream, *std::move(chunk));
    if (status.ok()) return Note(header, bytes, stream);
    const bool is_fit = IsErrorOfChunk(status) || absl::IsUnavailable(status);
    Check(is_fit, absl::StrCat("got ", status.ToString()));
    // As HopBackend ends a stream of which something was taken.
    if (stream == taken_from_) End(stream, status);
  }
  void End(StreamId stream, const absl::Status& status) {
    exchange_.OnEnd(stream, status);
    failed_ = true;
  }
  // Parcels of a hop are taken up to its segment's end, and as many kept.
  void Note(const ChunkHeader& header, uint64_t bytes, StreamId stream) {
    Check(!failed_, "a chunk is taken after a failure");
    if (taken_from_ == StreamId(0)) taken_from_ = stream;
    Check(stream == taken_from_, "a second stream is taken");
    Check(header.rank == kNeighbour, "a chunk of another rank is taken");
    Check(header.step == step_ || header.step.value() == step_.value() + 1, "a far step is taken");
    const BucketKey key{LayoutId(0), header.step, header.bucket};
    const Segments& segments = plans_.Of(key).segments;
    const auto place = segments.Find(header.offset);
    if (!place) return Check(false, "what is no parcel is taken");
    uint64_t& taken =
        taken_[{header.step, header.bucket.value(), place->segment, static_cast<int>(header.hop)}];
    taken += bytes;
    // What comes again when its bucket is over is found out when the next step begins.
    Check(taken <= 2 * segments.BytesOf(place->segment), "more than a segment is taken and kept");
  }

  // The next bucket of the step, and behind the last one the first of the next step.
  void Expect() {
    if (expected_ == specs_.size()) {
      expected_ = 0;
      contributed_ = 0;
      ++step_;
    }
    const uint64_t bytes = Buckets()[expected_].bytes;
    memory_.push_back(std::make_unique<Memory>(bytes));
    auto* const result = reinterpret_cast<uint8_t*>(memory_.back()->result.data());
    exchange_.Expect(KeyOf(expected_++), {result, bytes}, absl::InfiniteFuture(),
                     [](absl::Status) {});
  }
  void Contribute() {
    if (contributed_ == expected_) return;
    const Memory& memory = *memory_[memory_.size() - expected_ + contributed_];
    const auto* const terms = reinterpret_cast<const uint8_t*>(memory.terms.data());
    const size_t bucket = contributed_++;
    if (!Contributes(specs_[bucket], kSelf)) return;
    exchange_.Contribute(KeyOf(bucket), kSelf, {terms, Buckets()[bucket].bytes});
  }
  BucketKey KeyOf(size_t bucket) const {
    return {LayoutId(0), step_, Bucket(static_cast<int>(bucket))};
  }

  InputReader& input_;
  const View view_;
  const v1::DType wire_;
  const std::vector<BucketSpec> specs_;  // on the wire
  HopPlans plans_;
  std::vector<Incoming> parcels_;  // of a step
  std::string violated_;
  size_t next_ = 0;
  v1::Chunk last_;
  Step step_{0};                           // the open one
  size_t expected_ = 0, contributed_ = 0;  // buckets of it
  bool failed_ = false;
  StreamId taken_from_{0};
  std::map<Place, uint64_t> taken_;              // bytes
  std::vector<std::unique_ptr<Memory>> memory_;  // longer than the exchange
  // Without Start: no thread sends, and what came early stays where it is.
  HopExchange exchange_;
};

std::string Event(Kind kind, const std::vector<int>& choices = {}) {
  std::string event = {static_cast<char>(kind)};
  for (const int choice : choices) event.push_back(static_cast<char>(choice));
  return event;
}

}  // namespace

std::string ViolatedByNeighbor(absl::string_view bytes) {
  InputReader input(bytes);
  return Stream(&input).Run();
}

std::vector<std::string> NeighborSeeds() {
  std::string expect, contribute, all, early;
  for (int i = 0; i < 3; ++i) expect += Event(kExpect), contribute += Event(kContribute);
  for (int i = 0; i < 6; ++i) all += Event(kSendNext, {5, 64});
  for (int i = 0; i < 4; ++i) early += Event(kSendAny, {i, 5, 0, 0, 64});
  std::vector<std::string> seeds = {""};
  for (const char wire : {'\0', '\1'}) {
    const std::string begin = wire + expect + contribute;
    seeds.push_back(begin + all + expect + contribute + all + Event(kEnd, {0xff, 1}));
    seeds.push_back(wire + early + expect + early + contribute);
    seeds.push_back(begin + Event(kSendAny, {0, 5, 0, 0, 64}) + Event(kSendAgain, {64}));
    seeds.push_back(begin + Event(kSendAny, {1, 5, 0, 0, 64}));
    seeds.push_back(begin + Event(kSendAny, {0, 5, 7, 7, 64}) + Event(kEnd, {0xff, 0}));
  }
  return seeds;
}

}  // namespace gradwire
