#include "worker/backends/memory/memory_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

// Longest sleep: a worker that is killed rings no bell.
constexpr absl::Duration kSleep = absl::Milliseconds(100);
// The same while some of another worker's memory does not exist yet, which rings no bell.
constexpr absl::Duration kOpenSlice = absl::Microseconds(500);

}  // namespace

MemoryExchange::MemoryExchange(const View& view, const MemoryWire& wire, Compressors* compressors,
                               OnSpan on_span)
    : view_(view),
      wire_(wire),
      compressors_(compressors),
      on_span_(std::move(on_span)),
      budget_(view, wire),
      overflow_(wire.dtype, /*sums=*/wire.by_hops),
      bells_(view.members.size()),
      states_(view.members.size()),
      table_({[this](const Transfer& late) { return Explain(late); },
              [this](const absl::Status&) { Stop(); },
              [this] {
                if (thread_.joinable()) thread_.join();
              }},
             view.first_step) {
  while (view.members[self_].incarnation != view.self) ++self_;
}

MemoryExchange::~MemoryExchange() { table_.Close(); }

absl::Status MemoryExchange::MakeOwn() {
  auto bell = SharedMemory::Make(MemoryName(view_, view_.self, "bell"), sizeof(Bell),
                                 SharedMemory::Writer::kAll);
  if (!bell.ok()) return bell.status();
  bells_[self_] = *std::move(bell);
  auto state = SharedMemory::Make(MemoryName(view_, view_.self, "state"), sizeof(SharedState),
                                  SharedMemory::Writer::kMaker);
  if (!state.ok()) return state.status();
  states_[self_] = *std::move(state);
  return absl::OkStatus();
}

absl::Status MemoryExchange::Open(size_t worker) {
  const Incarnation incarnation = view_.members[worker].incarnation;
  const uint32_t pid = view_.members[worker].pid;
  auto bell = SharedMemory::Open(pid, MemoryName(view_, incarnation, "bell"), sizeof(Bell),
                                 SharedMemory::Writer::kAll);
  if (!bell.ok()) return bell.status();
  auto state = SharedMemory::Open(pid, MemoryName(view_, incarnation, "state"), sizeof(SharedState),
                                  SharedMemory::Writer::kMaker);
  if (!state.ok()) return state.status();
  MutexLock lock(&mutex_);
  bells_[worker] = *std::move(bell);
  states_[worker] = *std::move(state);
  return absl::OkStatus();
}

absl::Status MemoryExchange::Start() {
  if (absl::Status made = MakeOwn(); !made.ok()) return made;
  thread_ = std::thread([this] { Run(); });
  table_.Start();
  return absl::OkStatus();
}

void MemoryExchange::FailToOpen(size_t worker, const absl::Status& status) {
  // The coordinator reports a worker that does not exist any more.
  if (status.ok() || absl::IsNotFound(status) || absl::IsUnavailable(status)) return;
  const std::string what = absl::StrCat("cannot share memory with ", NamesOf({worker}),
                                        " (--shared-memory off exchanges by the network)");
  table_.Fail(Annotate(status, what), absl::nullopt);
}

bool MemoryExchange::OpenAll() {
  bool all = true;
  for (size_t worker = 0; worker < bells_.size(); ++worker) {
    if (bells_[worker].data() != nullptr) continue;
    const absl::Status opened = Open(worker);
    FailToOpen(worker, opened);
    all = all && opened.ok();
    // No ring has reached it until now.
    if (opened.ok()) BellOf(worker)->Ring();
  }
  return all;
}

Bell* MemoryExchange::BellOf(size_t worker) const {
  return reinterpret_cast<Bell*>(bells_[worker].data());
}

void MemoryExchange::RingAll() {
  MutexLock lock(&mutex_);
  for (size_t worker = 0; worker < bells_.size(); ++worker) {
    if (bells_[worker].data() != nullptr) BellOf(worker)->Ring();
  }
}

void MemoryExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  const absl::Status fits = Reserve(buckets);
  if (!fits.ok()) return AddFailed(layout, std::move(buckets), fits);
  AddReserved(layout, std::move(buckets));
}

void MemoryExchange::AddReserved(LayoutId layout, std::vector<BucketSpec> buckets) {
  auto memory = std::make_unique<MemoryLayout>(view_, layout, buckets, wire_, compressors_);
  if (absl::Status made = memory->Make(); !made.ok()) table_.Fail(made, absl::nullopt);
  Add(layout, std::move(memory), std::move(buckets));
}

void MemoryExchange::AddFailed(LayoutId layout, std::vector<BucketSpec> buckets,
                               const absl::Status& reason) {
  table_.Fail(reason, absl::nullopt);
  Add(layout, std::make_unique<MemoryLayout>(view_, layout, buckets, wire_, compressors_),
      std::move(buckets));
}

void MemoryExchange::Add(LayoutId layout, std::unique_ptr<MemoryLayout> memory,
                         std::vector<BucketSpec> buckets) {
  {
    MutexLock lock(&mutex_);
    layouts_[layout] = std::move(memory);
  }
  table_.AddLayout(layout, std::move(buckets));
}

void MemoryExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                            Done done) {
  auto transfer =
      std::make_shared<MemoryTransfer>(key, table_.SpecOf(key), result, deadline, std::move(done));
  for (const Rank rank : view_.members[self_].ranks) {
    if (Contributes(transfer->spec, rank)) ++transfer->missing;
  }
  {
    MutexLock lock(&mutex_);
    transfer->layout = layouts_.at(key.layout).get();
    transfer->is_joined = transfer->layout->IsJoined(key.bucket, result);
  }
  // First: the thread may complete what it sees at once.
  table_.Add(transfer);
  {
    MutexLock lock(&mutex_);
    under_way_.push_back(transfer);
  }
  if (transfer->missing == 0) BellOf(self_)->Ring();  // the root may be ahead
}

void MemoryExchange::Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  const auto transfer = std::static_pointer_cast<MemoryTransfer>(table_.Find(key));
  if (transfer == nullptr || !transfer->layout->is_made()) return;  // it has failed
  Count(key.step, transfer->layout->Write(key, rank, terms));
  if (--transfer->missing > 0) return;
  transfer->layout->Publish(&MemoryLayout::Progress::contributed, key);
  RingAll();
}

Exchange::Memory MemoryExchange::TermsMemory(LayoutId layout, Bucket bucket, Rank rank) {
  MutexLock lock(&mutex_);
  return layouts_.at(layout)->TermsMemory(rank, bucket);
}

Exchange::Memory MemoryExchange::ResultMemory(LayoutId layout, Bucket bucket) {
  MutexLock lock(&mutex_);
  return layouts_.at(layout)->MeansMemory(bucket);
}

void MemoryExchange::Run() {
  while (true) {
    const uint32_t seen = BellOf(self_)->rings();
    {
      MutexLock lock(&mutex_);
      if (stopped_) return;
    }
    all_open_ = all_open_ || OpenAll();
    const bool any = all_open_ && Progress();
    if (!any) BellOf(self_)->Sleep(seen, is_opening_ ? kOpenSlice : kSleep);
  }
}

std::vector<MemoryExchange::State> MemoryExchange::States() const {
  std::vector<State> states;
  for (const SharedMemory& memory : states_) {
    states.push_back(reinterpret_cast<const SharedState*>(memory.data())->load());
  }
  return states;
}

void MemoryExchange::SetState(State state) {
  if (states_[self_].data() == nullptr) return;
  State running = State::kRunning;  // the first end counts
  reinterpret_cast<SharedState*>(states_[self_].data())->compare_exchange_strong(running, state);
  RingAll();
}

bool MemoryExchange::Progress() {
  // Before a look at the buckets: a worker ends after it has published what it did.
  const std::vector<State> states = States();
  Transfers waiting;
  {
    MutexLock lock(&mutex_);
    waiting = under_way_;
  }
  bool any = false;
  is_opening_ = false;
  for (const auto& transfer : waiting) any = Progress(transfer) || any;
  if (!any) CheckEnded(waiting, states);
  return any;
}

bool MemoryExchange::IsOpen(MemoryLayout* layout) {
  absl::Status opened;
  size_t worker = 0;
  {
    MutexLock lock(&mutex_);
    opened = layout->Open(&worker);
  }
  FailToOpen(worker, opened);
  return opened.ok();
}

bool MemoryExchange::Progress(const std::shared_ptr<MemoryTransfer>& transfer) {
  MemoryLayout& layout = *transfer->layout;
  if (!IsOpen(&layout)) {
    is_opening_ = true;
    return false;
  }
  const bool folds = !transfer->folded;
  if (folds) {
    if (!layout.Missing(&MemoryLayout::Progress::contributed, transfer->key).empty()) return false;
    Fold(transfer.get());
    layout.Publish(&MemoryLayout::Progress::folded, transfer->key);
    RingAll();
  }
  if (!layout.Missing(&MemoryLayout::Progress::folded, transfer->key).empty()) return folds;
  if (!transfer->is_joined) {
    Count(transfer->key.step, layout.Read(transfer->key.bucket, transfer->result));
  }
  {
    MutexLock lock(&mutex_);
    under_way_.erase(std::find(under_way_.begin(), under_way_.end(), transfer));
  }
  table_.Complete(transfer->key);
  return true;
}

void MemoryExchange::Fold(MemoryTransfer* transfer) {
  const absl::Time begin = on_span_ ? SteadyNow() : absl::Time();
  transfer->layout->Fold(transfer->key.bucket);
  transfer->layout->ReadTerms(transfer->key.bucket, transfer->result);
  transfer->folded = true;
  if (!on_span_ || IsBroadcast(transfer->spec)) return;
  // A layout that begins with bytes is no model's.
  const BucketKey first{transfer->key.layout, transfer->key.step, Bucket(0)};
  if (IsBroadcast(table_.SpecOf(first))) return;
  on_span_({TraceSpan::Lane::kAggregation, "fold", transfer->key.step, transfer->key.bucket, begin,
            SteadyNow()});
}

// Each worker counts what its own ranks did, whoever has folded it.
void MemoryExchange::Count(Step step, const MemoryLayout::Rounding& rounding) {
  for (const Rank rank : view_.members[self_].ranks) {
    if ((rounding.overflow >> rank.value() % 64 & 1) != 0) overflow_.Note(step, rank);
  }
  MutexLock lock(&mutex_);
  compressed_ += rounding.compressed;
}

std::vector<KeptValues> MemoryExchange::Kept(LayoutId layout) {
  MutexLock lock(&mutex_);
  return layouts_.at(layout)->Kept();
}

TransferTotals MemoryExchange::totals() const {
  TransferTotals totals;
  totals.overflow_steps = overflow_.steps();
  MutexLock lock(&mutex_);
  totals.compressed = compressed_;
  return totals;
}

std::vector<size_t> MemoryExchange::MissingOf(const MemoryTransfer& transfer, std::string* what) {
  MutexLock lock(&mutex_);
  *what = "gradients";
  auto missing = transfer.layout->Missing(&MemoryLayout::Progress::contributed, transfer.key);
  if (!missing.empty()) return missing;
  *what = "a part of the mean";
  return transfer.layout->Missing(&MemoryLayout::Progress::folded, transfer.key);
}

void MemoryExchange::CheckEnded(const Transfers& waiting, const std::vector<State>& states) {
  for (const auto& transfer : waiting) {
    std::string what;
    for (const size_t worker : MissingOf(*transfer, &what)) {
      if (worker == self_ || states[worker] == State::kRunning) continue;
      if (states[worker] == State::kFinished) {
        const std::string left = absl::StrCat(
            NamesOf({worker}), " has left, but other workers have not finished all steps");
        return table_.Fail(absl::FailedPreconditionError(left), absl::nullopt);
      }
      return table_.Fail(
          absl::AbortedError(absl::StrCat(NamesOf({worker}), " has ended; ", what, " of ",
                                          ToString(transfer->key), " did not come")),
          view_.members[worker].incarnation);
    }
  }
}

std::string MemoryExchange::NamesOf(const std::vector<size_t>& workers) const {
  return absl::StrJoin(workers, ", ", [this](std::string* out, size_t worker) {
    const Member& member = view_.members[worker];
    absl::StrAppend(out, NameOf(member.ranks), " (", member.address, ")");
  });
}

Lateness MemoryExchange::Explain(const Transfer& late) {
  std::string what;
  std::vector<size_t> missing = MissingOf(static_cast<const MemoryTransfer&>(late), &what);
  missing.erase(std::remove(missing.begin(), missing.end(), self_), missing.end());
  std::vector<Incarnation> suspects;
  for (const size_t worker : missing) suspects.push_back(view_.members[worker].incarnation);
  const std::string cause = missing.empty()
                                ? "this worker's own gradients are missing"
                                : absl::StrCat(what, " of ", NamesOf(missing), " did not come");
  return {absl::DeadlineExceededError(absl::StrCat(ToString(late.key), ": ", cause)),
          std::move(suspects)};
}

absl::Status MemoryExchange::Finish(absl::Time) {
  absl::Status failure = table_.failure();
  if (failure.ok()) SetState(State::kFinished);
  return failure;
}

void MemoryExchange::Stop() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  SetState(State::kFailed);
  RingAll();
}

}  // namespace gradwire
