#include "worker/backends/engines/engine_exchange.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/fold/fold.h"
#include "common/wire/layout.h"

namespace gradwire {
namespace {

// Shortest time between two messages to the other ranks about this rank's progress.
constexpr absl::Duration kNewsInterval = absl::Milliseconds(100);
// Longest wait for the other ranks' progress; shorter than a sync waits after its deadline.
constexpr absl::Duration kAskTimeout = absl::Seconds(1);

// This key exists if the rank has lost a connection, and therefore closed all of its own.
std::string LostAPeerKey(int rank) { return absl::StrCat("lost-a-peer/", rank); }
// The number of buckets that the rank has contributed.
std::string CountKey(int rank) { return absl::StrCat("handed-in/", rank); }

void Scale(absl::Span<uint8_t> bytes, int world_size) {
  auto* values = reinterpret_cast<float*>(bytes.data());
  const float factor = 1.0f / static_cast<float>(world_size);
  for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) values[i] *= factor;
}

// Returns the number of ranks to which a rank passes on the root's bytes, in a binomial tree;
// `from_root` is its distance from the root.
int BroadcastChildren(int from_root, int world_size) {
  int children = 0;
  for (int bit = 1; bit < world_size && (from_root & bit) == 0; bit <<= 1) {
    if (from_root + bit < world_size) ++children;
  }
  return children;
}

int OnlyRank(const View& view) {
  const std::vector<Rank> ranks = view.OwnRanks();
  return ranks.size() == 1 ? ranks[0].value() : -1;
}

}  // namespace

EngineExchange::EngineExchange(std::string name, const View& view, const BackendOptions& options,
                               std::unique_ptr<CollectiveEngine> engine)
    : name_(std::move(name)),
      view_(view),
      rank_(OnlyRank(view)),
      gathers_(options.gathers),
      rendezvous_(options.coordinator, options.security),
      engine_(std::move(engine)),
      table_({[this](const Transfer& late) { return Explain(late); },
              [this](const absl::Status& reason) { Stop(reason); }, [this] { Drain(); }},
             view.first_step) {}

EngineExchange::~EngineExchange() {
  table_.Close();
  if (contact_thread_.joinable()) contact_thread_.join();
  if (issue_thread_.joinable()) issue_thread_.join();
  engine_.reset();
}

absl::Status EngineExchange::Start() {
  for (const Member& member : view_.members) {
    if (member.ranks.size() == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("back end ", name_, ": got ", NameOf(member.ranks), " on one worker (",
                     member.address, "), expected a worker for each rank"));
  }
  const std::string& address = view_.Carrier(Rank(rank_)).address;
  const absl::StatusOr<HostPort> host_port = ParseHostPort(address);
  absl::Status bound = host_port.ok() ? engine_->Bind(host_port->host) : host_port.status();
  if (!bound.ok()) {
    return Annotate(bound,
                    absl::StrCat("back end ", name_, " needs the advertised address ", address));
  }
  {
    MutexLock lock(&mutex_);
    bound_ = true;
  }
  contact_thread_ = std::thread([this] { ContactLoop(); });
  issue_thread_ = std::thread([this] { IssueLoop(); });
  table_.Start();
  return absl::OkStatus();
}

void EngineExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  if (gathers_) blocks_.emplace(layout, FoldBlocks(buckets, view_.world_size));
  table_.AddLayout(layout, std::move(buckets));
}

void EngineExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                            Done done) {
  auto transfer =
      std::make_shared<EngineTransfer>(key, table_.SpecOf(key), result, deadline, std::move(done));
  if (gathers_ && rank_ == 0 && !IsBroadcast(transfer->spec)) {
    transfer->ranges = blocks_.at(key.layout).Cut(key.bucket, 0, transfer->spec.bytes);
  }
  {
    MutexLock lock(&mutex_);
    transfer->sequence = expected_++;
  }
  table_.Add(transfer);
  if (IsBroadcast(transfer->spec) && transfer->spec.root != Rank(rank_)) NoteReady(transfer);
}

void EngineExchange::Contribute(const BucketKey& key, Rank, absl::Span<const uint8_t> terms) {
  const auto transfer = std::static_pointer_cast<EngineTransfer>(table_.Find(key));
  if (transfer == nullptr) return;  // it has failed
  transfer->terms = terms;
  NoteReady(transfer);
}

void EngineExchange::NoteReady(const std::shared_ptr<EngineTransfer>& transfer) {
  MutexLock lock(&mutex_);
  ready_[transfer->sequence] = transfer;
  ++handed_in_;
  changed_.NotifyAll();
  handed_.NotifyAll();
}

std::shared_ptr<EngineExchange::EngineTransfer> EngineExchange::NextToIssue() {
  MutexLock lock(&mutex_);
  while (!stopped_) {
    const auto next = ready_.find(issued_);
    if (connected_ && next != ready_.end()) {
      std::shared_ptr<EngineTransfer> transfer = std::move(next->second);
      ready_.erase(next);
      ++issued_;
      ++in_engine_;
      return transfer;
    }
    changed_.Wait(&mutex_);
  }
  return nullptr;
}

void EngineExchange::IssueLoop() {
  while (const std::shared_ptr<EngineTransfer> transfer = NextToIssue()) Issue(transfer);
}

void EngineExchange::Issue(const std::shared_ptr<EngineTransfer>& transfer) {
  const absl::Span<uint8_t> result = transfer->result;
  auto done = [this, transfer](const absl::Status& status) { OnEngineDone(*transfer, status); };
  if (!gathers_ && !IsBroadcast(transfer->spec)) {
    const auto* terms = reinterpret_cast<const float*>(transfer->terms.data());
    auto* sum = reinterpret_cast<float*>(result.data());
    const size_t count = result.size() / sizeof(float);
    return engine_->Sum({terms, count}, {sum, count}, done);
  }
  if (!transfer->terms.empty() && transfer->terms.data() != result.data()) {
    std::memcpy(result.data(), transfer->terms.data(), result.size());
  }
  if (IsBroadcast(transfer->spec)) {
    return engine_->Broadcast(result, transfer->spec.root.value(), done);
  }
  GatherAndScatter(transfer.get(), done);
}

void EngineExchange::GatherAndScatter(EngineTransfer* transfer,
                                      const CollectiveEngine::Done& done) {
  const absl::Span<uint8_t> mine = transfer->result;
  std::vector<absl::Span<uint8_t>> parts;
  if (rank_ == 0) {
    transfer->gathered.resize(view_.world_size * mine.size() / sizeof(float));
    auto* all = reinterpret_cast<uint8_t*>(transfer->gathered.data());
    for (int i = 0; i < view_.world_size; ++i) {
      parts.emplace_back(all + i * mine.size(), mine.size());
    }
  }
  std::promise<absl::Status> ended;
  engine_->Gather(mine, parts, 0, [&ended](const absl::Status& s) { ended.set_value(s); });
  const absl::Status status = ended.get_future().get();
  if (!status.ok()) return done(status);
  if (rank_ == 0) {
    std::vector<ByteSpans> terms;
    for (const absl::Span<uint8_t> part : parts) terms.push_back({part});
    Fold(terms, transfer->spec.dtype, transfer->ranges, mine);
    std::memcpy(parts[0].data(), mine.data(), mine.size());
    parts.assign(parts.size(), parts[0]);
  }
  engine_->Scatter(parts, mine, 0, done);
}

void EngineExchange::OnEngineDone(const EngineTransfer& transfer, const absl::Status& status) {
  if (status.ok()) {
    if (!IsBroadcast(transfer.spec) && !gathers_) Scale(transfer.result, view_.world_size);
    Count(transfer);
  } else if (table_.failure().ok()) {
    // The broken connection is known only for the first break.
    OnBreak(transfer, status);
  }
  {
    MutexLock lock(&mutex_);
    --in_engine_;
    changed_.NotifyAll();
  }
  if (status.ok()) table_.Complete(transfer.key);
}

std::vector<int> EngineExchange::LostPeers() {
  const std::vector<int> broken = engine_->BrokenPeers();
  // Reported before this rank closes its own connections, because it is not the cause.
  rendezvous_.Set(LostAPeerKey(rank_), "").IgnoreError();
  std::vector<std::string> keys;
  for (const int rank : broken) keys.push_back(LostAPeerKey(rank));
  const auto said = rendezvous_.Get(keys, SteadyNow() + kAskTimeout);
  std::vector<int> lost;
  for (size_t i = 0; said.ok() && i < broken.size(); ++i) {
    if (!(*said)[i].has_value()) lost.push_back(broken[i]);
  }
  return lost.empty() ? broken : lost;
}

void EngineExchange::OnBreak(const Transfer& transfer, const absl::Status& status) {
  const std::vector<int> lost = LostPeers();
  const std::string peers =
      lost.empty() ? "" : absl::StrCat(" lost its connection to ", RankNames(lost));
  absl::optional<Incarnation> suspect;
  if (lost.size() == 1) suspect = view_.Carrier(Rank(lost[0])).incarnation;
  table_.Fail(absl::UnavailableError(absl::StrCat(ToString(transfer.key), ": ", name_, peers, ": ",
                                                  std::string(status.message()))),
              suspect);
}

void EngineExchange::Count(const Transfer& transfer) {
  const uint64_t bytes = transfer.result.size();
  const int world_size = view_.world_size;
  if (IsBroadcast(transfer.spec)) {
    const int from_root = (rank_ - transfer.spec.root.value() + world_size) % world_size;
    traffic_.sent += bytes * BroadcastChildren(from_root, world_size);
    traffic_.received += from_root == 0 ? 0 : bytes;
  } else if (gathers_) {
    traffic_.sent += rank_ == 0 ? bytes * (world_size - 1) : bytes;
    traffic_.received += rank_ == 0 ? bytes * (world_size - 1) : bytes;
  } else {
    traffic_.sent += 2 * bytes * (world_size - 1) / world_size;
    traffic_.received += 2 * bytes * (world_size - 1) / world_size;
  }
}

std::string EngineExchange::RankNames(const std::vector<int>& ranks) const {
  return absl::StrJoin(ranks, ", ", [this](std::string* out, int rank) {
    absl::StrAppend(out, "rank ", rank, " (", view_.Carrier(Rank(rank)).address, ")");
  });
}

Lateness EngineExchange::Explain(const Transfer& late) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < view_.world_size; ++rank) keys.push_back(CountKey(rank));
  const auto counts = rendezvous_.Get(keys, SteadyNow() + kAskTimeout);
  std::string cause = absl::StrCat("all ranks have contributed, but ", name_, " has not finished");
  std::vector<int> behind;
  for (int rank = 0; counts.ok() && rank < view_.world_size; ++rank) {
    Sequence count = 0;
    const auto& text = (*counts)[rank];
    const bool known = text.has_value() && absl::SimpleAtoi(*text, &count);
    const Sequence sequence = static_cast<const EngineTransfer&>(late).sequence;
    if (rank != rank_ && (!known || count <= sequence)) behind.push_back(rank);
  }
  if (!behind.empty()) cause = absl::StrCat("missing: ", RankNames(behind));
  if (!counts.ok()) cause = std::string(counts.status().message());
  std::vector<Incarnation> suspects;
  for (const int rank : behind) suspects.push_back(view_.Carrier(Rank(rank)).incarnation);
  return {absl::DeadlineExceededError(
              absl::StrCat(ToString(late.key), ": not averaged by the deadline; ", cause)),
          std::move(suspects)};
}

void EngineExchange::Stop(const absl::Status& reason) {
  bool bound;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    bound = bound_;
    changed_.NotifyAll();
    handed_.NotifyAll();
    failed_.NotifyAll();
  }
  rendezvous_.Cancel(reason);
  if (bound) engine_->Abort();
}

void EngineExchange::Drain() {
  MutexLock lock(&mutex_);
  while (in_engine_ > 0) changed_.Wait(&mutex_);
  ready_.clear();
}

absl::Status EngineExchange::Finish(absl::Time deadline) {
  if (absl::Status failure = table_.failure(); !failure.ok()) return failure;
  return Annotate(engine_->Finish(deadline), name_);
}

absl::Status EngineExchange::ConnectPeers() {
  if (absl::Status reached = rendezvous_.Connect(view_); !reached.ok()) return reached;
  return Annotate(engine_->Connect(rank_, view_.world_size, &rendezvous_),
                  absl::StrCat(name_, " cannot connect the ranks"));
}

void EngineExchange::ContactLoop() {
  if (absl::Status connected = ConnectPeers(); !connected.ok()) {
    return table_.Fail(connected, absl::nullopt);
  }
  {
    MutexLock lock(&mutex_);
    connected_ = true;
    changed_.NotifyAll();
  }
  Sequence told = 0;
  while (WaitForNews(&told)) {
    // Only for the text of an error; a silent coordinator is noticed elsewhere.
    rendezvous_.Set(CountKey(rank_), absl::StrCat(told)).IgnoreError();
  }
}

bool EngineExchange::WaitForNews(Sequence* told) {
  MutexLock lock(&mutex_);
  const absl::Time earliest = SteadyNow() + (*told == 0 ? absl::ZeroDuration() : kNewsInterval);
  while (!stopped_ && SteadyNow() < earliest) failed_.WaitWithDeadline(&mutex_, earliest);
  while (!stopped_ && handed_in_ == *told) handed_.Wait(&mutex_);
  *told = handed_in_;
  return !stopped_;
}

}  // namespace gradwire
