// What an aggregator takes from several ranks' Gather streams at once, and what readers get from
// it: chunks in any order, of any step, sent again, or with a field changed.
//
//   the whole input  events, one after the other

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/aggregation/aggregator.h"
#include "common/base/clock.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/targets/stream_chunks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 2;
constexpr uint64_t kChunkBytes = 64;
constexpr int kMostEvents = 100;
// All terms and results that there can be; see LayoutSums.
constexpr uint64_t kMostHeldBytes = 8192;

enum Kind : uint8_t { kSend, kSendAgain, kSendStep, kRead, kMissing, kAbort, kKinds };

const std::vector<std::vector<BucketSpec>>& Layouts() {
  static const auto* const layouts =
      new std::vector<std::vector<BucketSpec>>{{{192, v1::DTYPE_FLOAT32},
                                                {66, v1::DTYPE_BFLOAT16},
                                                {33, v1::DTYPE_BYTES, Rank(1)},
                                                {128, v1::DTYPE_INT8}},
                                               {{64, v1::DTYPE_FLOAT32}}};
  return *layouts;
}

Grid GridOf(int bucket, const BucketSpec& spec) {
  return Grid(Bucket(bucket), spec.bytes, kChunkBytes, 1, Grid::AlignmentOf(spec.dtype));
}

// A piece of a step.
using Key = std::tuple<LayoutId, Step, Bucket, uint64_t>;
Key KeyOf(const ChunkHeader& header) {
  return {header.layout, header.step, header.bucket, header.offset};
}

std::string Flatten(const ByteSpans& pieces) {
  std::string bytes(TotalBytes(pieces), '\0');
  CopyTo(pieces, reinterpret_cast<uint8_t*>(&bytes[0]));
  return bytes;
}

float FloatAt(const std::string& bytes, size_t i) {
  float value;
  std::memcpy(&value, &bytes[i * sizeof(value)], sizeof(value));
  return value;
}

class Streams {
 public:
  explicit Streams(InputReader* input)
      : input_(*input),
        view_(StreamView(kRanks, kChunkBytes)),
        aggregator_(view_, Shard(), AggregatorHooks()) {
    for (size_t i = 0; i < Layouts().size(); ++i) {
      aggregator_.AddLayout(LayoutId(static_cast<int>(i)), Layouts()[i]);
    }
  }

  std::string Run() {
    for (int event = 0; event < kMostEvents && !input_.is_done() && violated_.empty(); ++event) {
      Apply(static_cast<Kind>(input_.Below(kKinds)));
      Check(aggregator_.held_bytes() <= kMostHeldBytes, "more is held than there is");
    }
    return violated_;
  }

 private:
  void Check(bool holds, absl::string_view what) {
    if (!holds && violated_.empty()) violated_ = std::string(what);
  }

  void Apply(Kind kind) {
    switch (kind) {
      case kSend:
        return SendOne();
      case kSendAgain:
        return Send(last_);
      case kSendStep:
        return SendStep(static_cast<uint32_t>(input_.Below(kRanks)));
      case kRead:
        return Read(input_.Below(cursors_.size()));
      case kMissing:
        aggregator_.MissingRanks(LayoutId(static_cast<int>(input_.Below(3))), open_[0]);
        return;
      case kAbort:
        if (input_.Byte() != 0xff) return;
        aggregator_.Abort(absl::AbortedError("the run is over"));
        aborted_ = true;
        return;
      default:
        return;
    }
  }

  v1::Chunk ChunkOf(size_t layout, size_t bucket, size_t piece, uint32_t rank) {
    const BucketSpec& spec = Layouts()[layout][bucket];
    const Grid grid = GridOf(static_cast<int>(bucket), spec);
    v1::Chunk chunk = StreamChunk(view_, PayloadOf(spec, grid.Bytes(piece)));
    chunk.set_layout(static_cast<uint32_t>(layout));
    chunk.set_step(open_[layout].value());
    chunk.set_rank(rank);
    chunk.set_bucket(static_cast<uint32_t>(bucket));
    chunk.set_offset(grid.Offset(piece));
    chunk.set_total(spec.bytes);
    chunk.set_dtype(spec.dtype);
    if (IsCoded(spec.dtype)) chunk.set_covers(grid.Bytes(piece));
    return chunk;
  }
  std::string PayloadOf(const BucketSpec& spec, uint64_t bytes) {
    if (spec.dtype == v1::DTYPE_FLOAT32) return SmallFloats(bytes / sizeof(float), &input_);
    const auto byte = static_cast<char>(input_.Byte());
    if (!IsCoded(spec.dtype)) return std::string(bytes, byte);
    return std::string(4, '\0') + std::string(bytes / sizeof(float), byte);  // one unit, scale 0
  }

  void SendOne() {
    const size_t layout = input_.Below(8) / 7;
    const size_t bucket = input_.Below(Layouts()[layout].size());
    const Grid grid = GridOf(static_cast<int>(bucket), Layouts()[layout][bucket]);
    const size_t piece = input_.Below(grid.pieces());
    v1::Chunk chunk = ChunkOf(layout, bucket, piece, static_cast<uint32_t>(input_.Below(kRanks)));
    const uint64_t step = input_.Below(16);
    if (step >= 14) chunk.set_step(chunk.step() + (step == 14 ? 1 : -1));
    Send(chunk);
  }
  void SendStep(uint32_t rank) {
    const Step step = open_[0];
    for (size_t bucket = 0; bucket < Layouts()[0].size() && open_[0] == step; ++bucket) {
      const BucketSpec& spec = Layouts()[0][bucket];
      if (!Contributes(spec, Rank(static_cast<int>(rank)))) continue;
      const size_t pieces = GridOf(static_cast<int>(bucket), spec).pieces();
      for (size_t piece = 0; piece < pieces; ++piece) {
        Send(ChunkOf(0, bucket, piece, rank));
      }
    }
  }

  void Send(const v1::Chunk& message) {
    last_ = message;
    absl::StatusOr<Chunk> chunk = Receive(message, &input_);
    if (!chunk.ok()) {
      return Check(chunk.status().code() == absl::StatusCode::kInvalidArgument,
                   "a chunk is decoded with another error than InvalidArgument");
    }
    const ChunkHeader header = chunk->header;
    // Of another layout it would wait for that.
    if (!aborted_ && header.layout.value() >= static_cast<int>(Layouts().size())) return;
    const std::string payload = Flatten(chunk->payload);
    const absl::StatusOr<Verdict> verdict = aggregator_.Add(*std::move(chunk));
    if (!verdict.ok()) {
      return Check(IsErrorOfChunk(verdict.status()),
                   absl::StrCat("got ", verdict.status().ToString()));
    }
    if (*verdict == Verdict::kAccept) Note(header, payload);
  }
  // An accepted term.
  void Note(const ChunkHeader& header, const std::string& payload) {
    Check(!aborted_, "a term is taken after the end");
    Check(header.step == open_[header.layout.value()], "a term of another step is taken");
    const BucketSpec& spec = Layouts()[header.layout.value()][header.bucket.value()];
    auto& of_piece = terms_[KeyOf(header)];
    Check(of_piece.emplace(header.rank, payload).second, "a term is taken twice");
    if (of_piece.size() < (IsBroadcast(spec) ? 1 : kRanks)) return;
    if (++complete_[header.layout.value()] == PiecesOf(header.layout)) {
      complete_[header.layout.value()] = 0;
      ++open_[header.layout.value()];
    }
  }
  static size_t PiecesOf(LayoutId layout) {
    const std::vector<BucketSpec>& specs = Layouts()[layout.value()];
    size_t pieces = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      pieces += GridOf(static_cast<int>(i), specs[i]).pieces();
    }
    return pieces;
  }

  void Read(size_t reader) {
    const absl::StatusOr<Mean> mean = aggregator_.Next(&cursors_[reader], SteadyNow());
    if (!mean.ok()) {
      return Check(IsErrorOfChunk(mean.status()) || absl::IsDeadlineExceeded(mean.status()),
                   "a reader gets another error");
    }
    const Key key = KeyOf(mean->header);
    Check(read_[reader].insert(key).second, "a mean is read twice");
    CheckMean(*mean, terms_[key]);
  }
  void CheckMean(const Mean& mean, const std::map<Rank, std::string>& terms) {
    const std::string got(reinterpret_cast<const char*>(mean.chunk->data.get()), mean.chunk->bytes);
    Check(Checksum({mean.chunk->data.get(), got.size()}) == mean.header.checksum,
          "a mean has another checksum");
    if (mean.header.dtype == v1::DTYPE_BYTES) {
      return Check(terms.size() == 1 && got == terms.begin()->second, "not the root's bytes");
    }
    if (terms.size() != kRanks) return Check(false, "a mean lacks terms");
    if (mean.header.dtype != v1::DTYPE_FLOAT32) return;
    for (size_t i = 0; i < got.size() / sizeof(float); ++i) {
      const float expected = (FloatAt(terms.at(Rank(0)), i) + FloatAt(terms.at(Rank(1)), i)) / 2;
      const bool is_it =
          FloatAt(got, i) == expected || (std::isnan(expected) && std::isnan(FloatAt(got, i)));
      Check(is_it, "a mean is not that of its terms");
    }
  }

  InputReader& input_;
  const View view_;
  Aggregator aggregator_;
  std::string violated_;
  v1::Chunk last_;
  bool aborted_ = false;
  std::map<Key, std::map<Rank, std::string>> terms_;  // accepted
  std::vector<Step> open_ = std::vector<Step>(Layouts().size(), Step(0));
  std::vector<size_t> complete_ = std::vector<size_t>(Layouts().size());  // pieces of the open step
  std::vector<MeanCursor> cursors_ = std::vector<MeanCursor>(2);
  std::vector<std::set<Key>> read_ = std::vector<std::set<Key>>(2);
};

std::string Event(Kind kind, const std::vector<int>& choices) {
  std::string event = {static_cast<char>(kind)};
  for (const int choice : choices) event.push_back(static_cast<char>(choice));
  return event;
}
// Each chunk of the step: what its payload is made of, and nothing changed.
std::string StepOf(int rank) {
  const std::string chunk = {5, 64};
  std::string event = Event(kSendStep, {rank});
  for (int i = 0; i < (rank == 1 ? 7 : 6); ++i) event += chunk;
  return event;
}

}  // namespace

std::string ViolatedByGather(absl::string_view bytes) {
  InputReader input(bytes);
  return Streams(&input).Run();
}

std::vector<std::string> GatherSeeds() {
  std::string reads;
  for (int i = 0; i < 8; ++i) reads += Event(kRead, {0}) + Event(kRead, {1});
  const std::string step = StepOf(0) + StepOf(1) + reads;
  std::vector<std::string> seeds = {"", step + step + step,
                                    StepOf(1) + reads + Event(kMissing, {0}),
                                    StepOf(0) + Event(kAbort, {0xff}) + step};
  for (int bucket = 0; bucket < 4; ++bucket) {
    const std::string sent = Event(kSend, {0, bucket, 0, 1, 0, 9, 64});
    seeds.push_back(sent + Event(kSendAgain, {64}) + Event(kSend, {0, bucket, 0, 0, 0, 4, 64}) +
                    reads);
    seeds.push_back(Event(kSend, {7, 0, 0, 1, 14, 9, 64}) + sent);
  }
  return seeds;
}

}  // namespace gradwire
