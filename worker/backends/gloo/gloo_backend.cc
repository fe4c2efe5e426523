#include "worker/backends/gloo/gloo_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/address.h"
#include "common/base/status_util.h"
#include "common/wire/layout.h"
#include "worker/backends/gloo/gloo_module.h"

namespace gradwire {
namespace {

// The others hear how far this rank is, but no more often than this.
constexpr absl::Duration kNewsInterval = absl::Milliseconds(100);
// For asking how far the others are; shorter than a sync waits beyond its deadline.
constexpr absl::Duration kAskTimeout = absl::Seconds(1);

std::string NameOf(const Transfer& transfer) {
  return absl::StrCat("step ", transfer.key.step.value(), ", bucket ", transfer.key.bucket.value());
}

// There if the rank has lost a connection, and so has closed all of its own.
std::string LostAPeerKey(int rank) { return absl::StrCat("lost-a-peer/", rank); }
// How many buckets the rank has handed in.
std::string CountKey(int rank) { return absl::StrCat("handed-in/", rank); }

void Scale(absl::Span<uint8_t> bytes, int world_size) {
  auto* values = reinterpret_cast<float*>(bytes.data());
  const float factor = 1.0f / static_cast<float>(world_size);
  for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) values[i] *= factor;
}

// How many ranks a rank passes rank 0's bytes on to, in gloo's binomial tree.
int BroadcastChildren(int rank, int world_size) {
  int children = 0;
  for (int bit = 1; bit < world_size && (rank & bit) == 0; bit <<= 1) {
    if (rank + bit < world_size) ++children;
  }
  return children;
}

}  // namespace

GlooBackend::GlooBackend(const std::string& coordinator, std::unique_ptr<GlooEngine> engine)
    : rendezvous_(coordinator), engine_(std::move(engine)) {}

GlooBackend::~GlooBackend() {
  Cancel(absl::CancelledError("the back end is shutting down"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (contact_thread_.joinable()) contact_thread_.join();
  if (issue_thread_.joinable()) issue_thread_.join();
  engine_.reset();
}

absl::Status GlooBackend::OnView(const View& view, std::vector<BucketSpec> buckets) {
  view_ = view;
  buckets_ = std::move(buckets);
  const std::string& address = view_.Carrier(view_.rank).address;
  const absl::StatusOr<HostPort> host_port = ParseHostPort(address);
  absl::Status bound = host_port.ok() ? engine_->Bind(host_port->host) : host_port.status();
  if (!bound.ok()) {
    return Annotate(bound, absl::StrCat("back end gloo needs the advertised address ", address));
  }
  {
    MutexLock lock(&mutex_);
    bound_ = true;
  }
  contact_thread_ = std::thread([this] { ContactLoop(); });
  issue_thread_ = std::thread([this] { IssueLoop(); });
  return absl::OkStatus();
}

void GlooBackend::AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms,
                                 absl::Span<float> mean, absl::Time deadline, Done done) {
  Submit(MakeReduce(key, terms, mean, deadline, std::move(done)));
}

void GlooBackend::BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes,
                                 absl::Time deadline, Done done) {
  Submit(MakeBroadcast(key, bytes, deadline, std::move(done)));
}

void GlooBackend::Submit(Transfer transfer) {
  MutexLock lock(&mutex_);
  transfers_.emplace(handed_in_++, std::move(transfer));
  changed_.NotifyAll();
  handed_.NotifyAll();
}

std::pair<absl::Time, GlooBackend::Sequence> GlooBackend::MostUrgent() const {
  std::pair<absl::Time, Sequence> urgent(absl::InfiniteFuture(), 0);
  for (const auto& [sequence, transfer] : transfers_) {
    if (transfer.deadline < urgent.first) urgent = {transfer.deadline, sequence};
  }
  return urgent;
}

GlooBackend::Work GlooBackend::NextWork() {
  MutexLock lock(&mutex_);
  while (true) {
    const auto [deadline, sequence] = MostUrgent();
    if (failure_.ok() && deadline <= absl::Now()) {
      return {Work::kExplainDelay, sequence, NameOf(transfers_.at(sequence)), {}};
    }
    if (issued_ < handed_in_ && (connected_ || !failure_.ok())) {
      return {Work::kIssue, issued_++, "", failure_};
    }
    if (closing_) return {Work::kEnd, 0, "", {}};
    changed_.WaitWithDeadline(&mutex_, failure_.ok() ? deadline : absl::InfiniteFuture());
  }
}

void GlooBackend::IssueLoop() {
  while (true) {
    const Work work = NextWork();
    if (work.kind == Work::kEnd) return;
    if (work.kind == Work::kExplainDelay) {
      Fail(DelayOf(work), absl::nullopt);
    } else if (work.failure.ok()) {
      Issue(work.sequence);
    } else {
      Complete(work.sequence, work.failure);
    }
  }
}

void GlooBackend::Issue(Sequence sequence) {
  absl::Span<const uint8_t> terms;
  absl::Span<uint8_t> result;
  v1::DType dtype;
  {
    MutexLock lock(&mutex_);
    const Transfer& transfer = transfers_.at(sequence);
    terms = transfer.terms;
    result = transfer.result;
    dtype = transfer.spec.dtype;
  }
  auto done = [this, sequence](const absl::Status& status) { OnEngineDone(sequence, status); };
  if (dtype == v1::DTYPE_BYTES) return engine_->Broadcast(result, done);
  std::memcpy(result.data(), terms.data(), terms.size());
  auto* values = reinterpret_cast<float*>(result.data());
  engine_->Sum({values, result.size() / sizeof(float)}, done);
}

void GlooBackend::OnEngineDone(Sequence sequence, const absl::Status& status) {
  if (status.ok()) return Complete(sequence, status);
  // Only of the first break it is known which connection it was.
  if (failure().ok()) OnBreak(sequence, status);
  Complete(sequence, failure());
}

std::vector<int> GlooBackend::LostPeers() {
  const std::vector<int> broken = engine_->BrokenPeers();
  // Said before this rank closes its own connections, for which it is not to blame.
  rendezvous_.Set(LostAPeerKey(view_.rank.value()), "").IgnoreError();
  std::vector<std::string> keys;
  for (const int rank : broken) keys.push_back(LostAPeerKey(rank));
  const auto said = rendezvous_.Get(keys, absl::Now() + kAskTimeout);
  std::vector<int> lost;
  for (size_t i = 0; said.ok() && i < broken.size(); ++i) {
    if (!(*said)[i].has_value()) lost.push_back(broken[i]);
  }
  return lost.empty() ? broken : lost;
}

void GlooBackend::OnBreak(Sequence sequence, const absl::Status& status) {
  const std::vector<int> lost = LostPeers();
  std::string name;
  {
    MutexLock lock(&mutex_);
    name = NameOf(transfers_.at(sequence));
  }
  const std::string peers =
      lost.empty() ? "" : absl::StrCat(" lost its connection to ", RankNames(lost));
  Fail(absl::UnavailableError(
           absl::StrCat(name, ": gloo", peers, ": ", std::string(status.message()))),
       lost.size() == 1 ? absl::make_optional(Rank(lost[0])) : absl::nullopt);
}

void GlooBackend::Complete(Sequence sequence, const absl::Status& status) {
  Transfer transfer;
  {
    MutexLock lock(&mutex_);
    const auto entry = transfers_.find(sequence);
    transfer = std::move(entry->second);
    transfers_.erase(entry);
  }
  if (status.ok()) {
    if (transfer.spec.dtype != v1::DTYPE_BYTES) Scale(transfer.result, view_.world_size);
    Count(transfer);
  }
  transfer.done(status);
}

void GlooBackend::Count(const Transfer& transfer) {
  const uint64_t bytes = transfer.result.size();
  const int rank = view_.rank.value();
  const int world_size = view_.world_size;
  if (transfer.spec.dtype == v1::DTYPE_BYTES) {
    bytes_sent_ += bytes * BroadcastChildren(rank, world_size);
    bytes_received_ += rank == 0 ? 0 : bytes;
  } else {
    bytes_sent_ += 2 * bytes * (world_size - 1) / world_size;
    bytes_received_ += 2 * bytes * (world_size - 1) / world_size;
  }
}

std::string GlooBackend::RankNames(const std::vector<int>& ranks) const {
  return absl::StrJoin(ranks, ", ", [this](std::string* out, int rank) {
    absl::StrAppend(out, "rank ", rank, " (", view_.Carrier(Rank(rank)).address, ")");
  });
}

absl::Status GlooBackend::DelayOf(const Work& late) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < view_.world_size; ++rank) keys.push_back(CountKey(rank));
  const auto counts = rendezvous_.Get(keys, absl::Now() + kAskTimeout);
  std::string cause = "all ranks have handed it in, but gloo has not finished";
  std::vector<int> behind;
  for (int rank = 0; counts.ok() && rank < view_.world_size; ++rank) {
    Sequence count = 0;
    const auto& text = (*counts)[rank];
    const bool known = text.has_value() && absl::SimpleAtoi(*text, &count);
    if (Rank(rank) != view_.rank && (!known || count <= late.sequence)) behind.push_back(rank);
  }
  if (!behind.empty()) cause = absl::StrCat("missing: ", RankNames(behind));
  if (!counts.ok()) cause = std::string(counts.status().message());
  return absl::DeadlineExceededError(
      absl::StrCat(late.name, ": not averaged by the deadline; ", cause));
}

void GlooBackend::Fail(const absl::Status& status, absl::optional<Rank> suspect) {
  bool bound;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    suspect_ = suspect;
    bound = bound_;
    changed_.NotifyAll();
    handed_.NotifyAll();
    failed_.NotifyAll();
  }
  rendezvous_.Cancel(status);
  if (bound) engine_->Abort();
}

absl::Status GlooBackend::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

void GlooBackend::Cancel(absl::Status reason) { Fail(reason, absl::nullopt); }

absl::Status GlooBackend::Connect() {
  if (absl::Status reached = rendezvous_.Connect(view_); !reached.ok()) return reached;
  return Annotate(engine_->Connect(view_.rank.value(), view_.world_size, &rendezvous_),
                  "gloo cannot connect the ranks");
}

void GlooBackend::ContactLoop() {
  if (absl::Status connected = Connect(); !connected.ok()) return Fail(connected, absl::nullopt);
  {
    MutexLock lock(&mutex_);
    connected_ = true;
    changed_.NotifyAll();
  }
  Sequence told = 0;
  while (WaitForNews(&told)) {
    // Only for the words of an error: a coordinator that does not answer is noticed elsewhere.
    rendezvous_.Set(CountKey(view_.rank.value()), absl::StrCat(told)).IgnoreError();
  }
}

bool GlooBackend::WaitForNews(Sequence* told) {
  MutexLock lock(&mutex_);
  const absl::Time earliest = absl::Now() + (*told == 0 ? absl::ZeroDuration() : kNewsInterval);
  while (failure_.ok() && absl::Now() < earliest) failed_.WaitWithDeadline(&mutex_, earliest);
  while (failure_.ok() && handed_in_ == *told) handed_.Wait(&mutex_);
  *told = handed_in_;
  return failure_.ok();
}

absl::Status GlooBackend::Finish(absl::Time) { return failure(); }

TransferTotals GlooBackend::totals() const { return {bytes_sent_, bytes_received_}; }

absl::optional<Rank> GlooBackend::suspect() const {
  MutexLock lock(&mutex_);
  return suspect_;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeGlooBackend(const BackendOptions& options) {
  // It would sum fp16 in fp16, and does not know bf16; the sum has to be made in float32.
  if (options.wire != v1::DTYPE_FLOAT32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "back end gloo cannot sum ", WireName(options.wire), " in float32; expected --wire fp32"));
  }
  absl::StatusOr<std::unique_ptr<GlooEngine>> engine = LoadGlooEngine();
  if (!engine.ok()) return engine.status();
  return std::make_unique<GlooBackend>(options.coordinator, *std::move(engine));
}

}  // namespace gradwire
