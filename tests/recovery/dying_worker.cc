// The shipped worker, which ends or stops itself at a named point of a run. It is linked so that
// what the shipped code calls by the names below comes here first (the linker's --wrap, for each
// mangled name in this file: see tests/CMakeLists.txt). DIES_AT in the environment is "POINT NUMBER
// SIGNAL"; with SIGNAL 0 the thread that reaches the point hangs there for good, which is the
// trainer's for those marked with *:
//
//   hand-in N        the first chunk of step N is about to leave
//   window N         two chunks of step N have left, and the third is about to
//   fold N           a sum of step N is about to be made here, or to be passed on in a ring
//   mean N           the first chunk of a mean of step N has come; others are still to be folded
//   applied N *      the first bucket of step N is applied
//   next-forward N * the forward pass of step N + 1 begins
//   ready N *        it has said that it has all means of step N
//   before-sealed N  word that step N is sealed has come, and is not heeded yet
//   sealed N *       it is about to take the first mean of step N + 1
//   new-view N       word of generation N has come, and is not heeded yet
//   rewound N *      it has undone what generation N takes back
//   save N           it is about to write the weights, after all N steps
//   saved N          it has written them
//
// ON_HOST in the environment: workers with another value are on another host, with which this one
// shares no memory.
//
// Steps are counted by what is called, so those of a step are reached in the first view only. It
// says on stderr when it is there. Who is continued after a stop goes on as if nothing had been.
#include <google/protobuf/io/zero_copy_stream.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/fold/blocks.h"
#include "common/session/session.h"
#include "common/wire/chunk_codec.h"
#include "worker/backends/memory/memory_layout.h"

// `Real##name` is the function, and `Seen##name` is called in its place; methods get their object
// first, as they do on all systems that Gradwire is built for. Shared libraries may call them, too.
#define GRADWIRE_WRAPPED(result, name, symbol, ...)         \
  result Real##name(__VA_ARGS__) __asm__("__real_" symbol); \
  __attribute__((visibility("default"))) result Seen##name(__VA_ARGS__) __asm__("__wrap_" symbol)

namespace at {
class Tensor;
}

namespace gradwire {

class RankBuffers;
class Reducer;
class SlicedOptimizer;
class Weights;  // whatever it is: the symbol says which function is meant

using google::protobuf::MessageLite;
using google::protobuf::io::ZeroCopyInputStream;

GRADWIRE_WRAPPED(grpc::ByteBuffer, EncodeChunk,
                 "_ZN8gradwire11EncodeChunkERKNS_11ChunkHeaderESt6vectorIN4grpc5SliceESaIS5_EE",
                 const ChunkHeader& header, std::vector<grpc::Slice> payload);
GRADWIRE_WRAPPED(absl::StatusOr<Chunk>, DecodeChunk,
                 "_ZN8gradwire11DecodeChunkEPN4grpc10ByteBufferE", grpc::ByteBuffer* buffer);
GRADWIRE_WRAPPED(std::vector<FoldRange>, Cut,
                 "_ZNK8gradwire10FoldBlocks3CutENS_9StrongIntINS_9BucketTagEiEEmm",
                 const FoldBlocks* blocks, Bucket bucket, uint64_t offset, uint64_t bytes);
GRADWIRE_WRAPPED(void, Publish,
                 "_ZN8gradwire12MemoryLayout7PublishEMNS0_8ProgressESt6atomicImERKNS_9BucketKeyE",
                 MemoryLayout* layout, std::atomic<uint64_t> MemoryLayout::Progress::*point,
                 const BucketKey& key);
GRADWIRE_WRAPPED(void, OptimizerStep, "_ZN8gradwire15SlicedOptimizer4StepERKN2at6TensorEd",
                 SlicedOptimizer* optimizer, const at::Tensor& gradient, double rate);
GRADWIRE_WRAPPED(void, LoadBuffers, "_ZN8gradwire11RankBuffers4LoadEm", RankBuffers* buffers,
                 size_t rank);
GRADWIRE_WRAPPED(void, RewindBuffers, "_ZN8gradwire11RankBuffers6RewindEv", RankBuffers* buffers);
GRADWIRE_WRAPPED(absl::StatusOr<size_t>, NextBucket, "_ZN8gradwire7Reducer10NextBucketEv",
                 Reducer* reducer);
GRADWIRE_WRAPPED(void, ReportReady, "_ZN8gradwire7Session11ReportReadyERKNS_2v15ReadyE",
                 Session* session, const v1::Ready& ready);
// CMake finds a symbol only in one piece.
// clang-format off
GRADWIRE_WRAPPED(std::string, MemoryId,
                 "_ZN8gradwire8MemoryIdEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
                 std::string* why_not);
GRADWIRE_WRAPPED(absl::Status, WriteWeights,
                 "_ZN8gradwire12WriteWeightsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt3mapIS5_N2at6TensorESt4lessIS5_ESaISt4pairIS6_SA_EEE",
                 const std::string& path, const Weights& weights);
// clang-format on
GRADWIRE_WRAPPED(
    bool, Parse,
    "_ZN6google8protobuf11MessageLite23ParseFromZeroCopyStreamEPNS0_2io19ZeroCopyInputStreamE",
    MessageLite* message, ZeroCopyInputStream* stream);

namespace {

struct Death {
  std::string point;
  uint64_t number = 0;
  int signal = 0;
};

Death PlannedDeath() {
  Death death;
  const char* const text = std::getenv("DIES_AT");
  std::istringstream(text == nullptr ? "" : text) >> death.point >> death.number >> death.signal;
  return death;
}

void Reach(const char* point, uint64_t number) {
  static const Death death = PlannedDeath();
  static std::atomic<bool> is_over{false};
  if (death.point != point || death.number != number || is_over.exchange(true)) return;
  const std::string line = absl::StrCat("reached ", point, " ", number, "\n");
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::abort();
  while (death.signal == 0) pause();
  raise(death.signal);
}

// Of the step, with the one that is about to leave.
int ChunksOf(Step step) {
  static Mutex mutex;
  static std::map<Step, int> counts;
  MutexLock lock(&mutex);
  return ++counts[step];
}

std::atomic<uint64_t> exchanged{0};   // the step of the latest chunk
std::atomic<uint64_t> generation{1};  // the latest that there was word of
// Of the trainer's thread:
uint64_t first_open = 0;  // the first step that is not ready
uint64_t forwards = 0;    // passes that have begun

}  // namespace

std::string SeenMemoryId(std::string* why_not) {
  const std::string id = RealMemoryId(why_not);
  const char* const host = std::getenv("ON_HOST");
  return id.empty() || host == nullptr ? id : absl::StrCat(id, " of host ", host);
}

grpc::ByteBuffer SeenEncodeChunk(const ChunkHeader& header, std::vector<grpc::Slice> payload) {
  exchanged = header.step.value();
  const int number = ChunksOf(header.step);
  if (number == 1) Reach("hand-in", header.step.value());
  if (number == 3) Reach("window", header.step.value());
  if (header.hop > 0) Reach("fold", header.step.value());
  return RealEncodeChunk(header, std::move(payload));
}

// Buckets that leave by shared memory.
void SeenPublish(MemoryLayout* layout, std::atomic<uint64_t> MemoryLayout::Progress::*point,
                 const BucketKey& key) {
  if (point == &MemoryLayout::Progress::contributed) {
    exchanged = key.step.value();
    const int number = ChunksOf(key.step);
    if (number == 1) Reach("hand-in", key.step.value());
    if (number == 3) Reach("window", key.step.value());
  }
  RealPublish(layout, point, key);
}

absl::StatusOr<Chunk> SeenDecodeChunk(grpc::ByteBuffer* buffer) {
  absl::StatusOr<Chunk> chunk = RealDecodeChunk(buffer);
  if (!chunk.ok()) return chunk;
  exchanged = chunk->header.step.value();
  Reach("mean", exchanged);
  return chunk;
}

// Asked for just before each fold, whose chunks have all come or gone through here.
std::vector<FoldRange> SeenCut(const FoldBlocks* blocks, Bucket bucket, uint64_t offset,
                               uint64_t bytes) {
  Reach("fold", exchanged);
  return RealCut(blocks, bucket, offset, bytes);
}

void SeenOptimizerStep(SlicedOptimizer* optimizer, const at::Tensor& gradient, double rate) {
  RealOptimizerStep(optimizer, gradient, rate);
  Reach("applied", first_open);
}

// Begins each forward pass.
void SeenLoadBuffers(RankBuffers* buffers, size_t rank) {
  if (forwards > 0) Reach("next-forward", forwards - 1);
  ++forwards;
  RealLoadBuffers(buffers, rank);
}

void SeenRewindBuffers(RankBuffers* buffers) {
  RealRewindBuffers(buffers);
  Reach("rewound", generation);
}

absl::StatusOr<size_t> SeenNextBucket(Reducer* reducer) {
  if (first_open > 0) Reach("sealed", first_open - 1);
  return RealNextBucket(reducer);
}

void SeenReportReady(Session* session, const v1::Ready& ready) {
  RealReportReady(session, ready);
  first_open = ready.step() + 1;
  Reach("ready", ready.step());
}

absl::Status SeenWriteWeights(const std::string& path, const Weights& weights) {
  Reach("save", first_open);
  absl::Status written = RealWriteWeights(path, weights);
  Reach("saved", first_open);
  return written;
}

// What the coordinator says, among other messages.
bool SeenParse(MessageLite* message, ZeroCopyInputStream* stream) {
  const bool parsed = RealParse(message, stream);
  const auto* const said = dynamic_cast<const v1::CoordinatorMessage*>(message);
  if (!parsed || said == nullptr) return parsed;
  if (said->has_sealed()) Reach("before-sealed", said->sealed().step());
  if (said->has_view()) {
    generation = said->view().generation();
    Reach("new-view", generation);
  }
  return parsed;
}

}  // namespace gradwire
