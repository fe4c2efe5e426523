#include "tests/simulate/setup.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/simulate/random.h"

namespace gradwire::simulate {
namespace {

constexpr const char* kKindNames[] = {
    "crash",       "stop",        "pause", "session breaks",     "silent up", "silent down",
    "data breaks", "data silent", "slow",  "coordinator pauses", "hang"};
constexpr const char* kMomentNames[] = {"time",      "hand-in",    "bucket taken",
                                        "ready",     "sealed",     "sealed heard",
                                        "view made", "view heard", "rewound"};

// Small ones are quick, and have most of the interleavings.
int DrawWorkers(Random* random) {
  return random->OneIn(8) ? random->Between(7, 16) : random->Between(2, 6);
}

Moment DrawMoment(Random* random, bool is_first) {
  if (random->OneIn(3)) return Moment::kTime;
  // In a recovery, for which there has to be one.
  if (!is_first && random->OneIn(2)) {
    static constexpr Moment kLater[] = {Moment::kViewMade, Moment::kViewHeard, Moment::kRewound};
    return kLater[random->Below(3)];
  }
  static constexpr Moment kMoments[] = {Moment::kContribute, Moment::kBucketTaken, Moment::kReady,
                                        Moment::kSealed, Moment::kSealedHeard};
  return kMoments[random->Below(5)];
}

int DrawCount(Random* random, Moment moment, const Setup& setup) {
  const auto steps = static_cast<int>(setup.steps);
  switch (moment) {
    case Moment::kContribute:
    case Moment::kBucketTaken:
      return random->Between(1, steps * 5);
    case Moment::kReady:
    case Moment::kSealed:
    case Moment::kSealedHeard:
      return random->Between(1, steps);
    default:
      return random->OneIn(4) ? 2 : 1;
  }
}

FaultKind DrawKind(Random* random, bool has_peer) {
  static constexpr FaultKind kKinds[] = {
      FaultKind::kCrash, FaultKind::kCrash,         FaultKind::kStop,      FaultKind::kPause,
      FaultKind::kPause, FaultKind::kSessionBreaks, FaultKind::kSilentUp,  FaultKind::kSilentDown,
      FaultKind::kSlow,  FaultKind::kDataBreaks,    FaultKind::kDataSilent};
  return kKinds[random->Below(has_peer ? std::size(kKinds) : std::size(kKinds) - 2)];
}

// Long enough, half of the time, that it means a loss.
absl::Duration DrawDuration(Random* random, FaultKind kind, absl::Duration lease) {
  if (kind == FaultKind::kSlow) return random->Between(absl::ZeroDuration(), absl::Seconds(1));
  const absl::Duration most = random->OneIn(2) ? lease / 2 : 2 * kKeepalive;
  return random->Between(absl::Milliseconds(1), most);
}

// Of workers below `victims`: those from there on are untouched.
Fault DrawFault(Random* random, const Setup& setup, int victims) {
  Fault fault;
  fault.worker = random->Between(0, victims - 1);
  const bool has_peer = !setup.sharded || victims > 1;
  fault.kind = DrawKind(random, has_peer);
  fault.peer = victims > 1 ? (fault.worker + random->Between(1, victims - 1)) % victims : 0;
  fault.duration = DrawDuration(random, fault.kind, setup.lease);
  fault.moment = DrawMoment(random, setup.faults.empty());
  fault.count = DrawCount(random, fault.moment, setup);
  const absl::Duration most =
      fault.moment == Moment::kTime ? absl::Milliseconds(40) * setup.steps : absl::Milliseconds(3);
  fault.delay = random->OneIn(3) && fault.moment != Moment::kTime
                    ? absl::ZeroDuration()
                    : random->Between(absl::ZeroDuration(), most);
  return fault;
}

// A worker that ends its transfers, and whose word of why takes longer than a second to the
// coordinator, leaves the others without a cause, and they give up after 1.8 s: that is not
// promised.
void SeparateFromMute(std::vector<Fault>* faults) {
  for (const Fault& fault : *faults) {
    if (fault.kind != FaultKind::kSilentUp && fault.kind != FaultKind::kSlow) continue;
    for (Fault& other : *faults) {
      const bool has_peer =
          other.kind == FaultKind::kDataBreaks || other.kind == FaultKind::kDataSilent;
      const bool is_same = other.worker == fault.worker || (has_peer && other.peer == fault.worker);
      if (is_same && (has_peer || other.kind == FaultKind::kStop)) other.kind = FaultKind::kCrash;
    }
  }
}

void DrawFaults(Random* random, Setup* setup) {
  if (random->OneIn(16)) {  // alone: then nobody may be lost
    setup->faults.push_back({FaultKind::kCoordinatorPause, -1, -1,
                             random->Between(absl::Milliseconds(100), absl::Seconds(9)),
                             Moment::kTime, 1,
                             random->Between(absl::ZeroDuration(), absl::Milliseconds(100))});
    return;
  }
  const int most = std::min(setup->workers - 1, random->OneIn(4) ? 15 : 3);
  const int victims = random->Between(1, most);
  const int count = random->Between(1, victims + 2);
  for (int i = 0; i < count; ++i) setup->faults.push_back(DrawFault(random, *setup, victims));
  SeparateFromMute(&setup->faults);
}

// Silence that ends before connections do, and not before the first step is sealed: until then
// nobody waits.
void DrawSilence(Random* random, Setup* setup) {
  static constexpr FaultKind kKinds[] = {FaultKind::kPause, FaultKind::kPause, FaultKind::kSilentUp,
                                         FaultKind::kDataSilent, FaultKind::kSlow};
  static constexpr Moment kFirst[] = {Moment::kSealed, Moment::kSealedHeard};
  static constexpr Moment kLater[] = {Moment::kReady, Moment::kViewMade, Moment::kViewHeard,
                                      Moment::kRewound};
  setup->waits = true;
  setup->lease = random->Between(absl::Seconds(1), absl::Seconds(3));
  setup->faults.clear();
  const int count = random->Between(1, 4);
  for (int i = 0; i < count; ++i) {
    Fault fault;
    fault.worker = random->Between(0, setup->workers - 1);
    fault.peer = (fault.worker + random->Between(1, setup->workers - 1)) % setup->workers;
    fault.kind = kKinds[i == 0 ? random->Below(3) : random->Below(std::size(kKinds))];
    fault.duration = fault.kind == FaultKind::kSlow
                         ? random->Between(absl::ZeroDuration(), absl::Milliseconds(500))
                         : random->Between(absl::Milliseconds(1), kKeepalive * 0.9);
    fault.moment = i == 0 ? kFirst[random->Below(2)] : kLater[random->Below(4)];
    fault.count = i == 0 ? random->Between(1, static_cast<int>(setup->steps) - 1) : 1;
    fault.delay = random->Between(absl::ZeroDuration(), absl::Milliseconds(20));
    setup->faults.push_back(fault);
  }
}

// Longer than all that others do in a step, with what else goes wrong.
constexpr absl::Duration kHangTimeout = absl::Seconds(40);

// In place of the first fault, if that is a worker's. What others say of themselves decides, so it
// is told as often as in a real run.
void DrawHang(Setup* setup) {
  if (setup->faults.front().kind == FaultKind::kCoordinatorPause) return;
  setup->faults.front().kind = FaultKind::kHang;
  setup->step_timeout = kHangTimeout;
  setup->heartbeat = absl::Milliseconds(250);
}

}  // namespace

bool Hangs(const Setup& setup) {
  return std::any_of(setup.faults.begin(), setup.faults.end(),
                     [](const Fault& fault) { return fault.kind == FaultKind::kHang; });
}

absl::Duration WaitBound(const Setup& setup) {
  return absl::Seconds(30) + 2 * kKeepalive * static_cast<int>(setup.faults.size()) +
         (Hangs(setup) ? 2 * setup.step_timeout : absl::ZeroDuration());
}

Setup DrawSetup(uint64_t seed) {
  // Setups of neighbouring seeds have nothing in common.
  Random random(seed * 0x9E3779B97F4A7C15u + 1);
  static constexpr const char* kSyncs[] = {"ddp", "ddp", "gather-scatter"};
  static constexpr const char* kOptimizers[] = {"sgd", "adam"};
  Setup setup;
  setup.seed = seed;
  setup.workers = DrawWorkers(&random);
  setup.world_size = std::min(16, setup.workers + (random.OneIn(3) ? random.Between(0, 4) : 0));
  setup.sharded = random.Below(3) > 0;
  setup.sync = kSyncs[random.Below(std::size(kSyncs))];
  setup.optimizer = kOptimizers[random.Below(std::size(kOptimizers))];
  setup.wide = random.OneIn(16);
  setup.bucket_cap_bytes = random.OneIn(2) ? 0 : setup.wide ? 20000 : 200;
  setup.chunk_bytes = setup.wide ? 8192 : 64 << random.Below(3);
  setup.steps = random.Between(2, static_cast<int>(kMostSteps));
  setup.connections = random.Between(1, 2);
  setup.duplicates = random.OneIn(3);
  setup.compare_every = random.Between(0, 2);
  setup.lease = random.Between(absl::Seconds(1), absl::Seconds(10));
  // Most runs are over before 20 of the usual heartbeats have come.
  setup.heartbeat = absl::Milliseconds(random.OneIn(2) ? 250 : 5);
  setup.min_lease = random.Between(absl::Milliseconds(100), absl::Seconds(1));
  DrawFaults(&random, &setup);
  if (random.OneIn(8)) {
    DrawSilence(&random, &setup);
  } else if (random.OneIn(8)) {
    DrawHang(&setup);
  }
  return setup;
}

Setup FaultlessSetup(const Setup& setup) {
  Setup faultless = setup;
  faultless.workers = 2;
  faultless.steps = kMostSteps;
  faultless.duplicates = false;
  faultless.waits = false;
  faultless.step_timeout = kStepTimeout;
  faultless.faults.clear();
  return faultless;
}

std::string Describe(const Setup& setup) {
  std::string text = absl::StrCat(
      "seed ", setup.seed, ": ", setup.workers, " workers, ", setup.world_size, " ranks, ",
      setup.sharded ? "sharded" : "coordinator", ", ", setup.sync, ", ", setup.optimizer,
      setup.wide ? ", wide" : "", ", buckets of ", setup.bucket_cap_bytes, ", ", setup.steps,
      " steps, ", setup.connections, " connections", setup.duplicates ? ", duplicates" : "",
      ", lease ", absl::FormatDuration(setup.min_lease), " to ", absl::FormatDuration(setup.lease),
      ", heartbeat ", absl::FormatDuration(setup.heartbeat), setup.waits ? ", needs all" : "");
  for (const Fault& fault : setup.faults) absl::StrAppend(&text, "\n  fault: ", Describe(fault));
  return text;
}

std::string Describe(const Fault& fault) {
  const bool has_peer =
      fault.kind == FaultKind::kDataBreaks || fault.kind == FaultKind::kDataSilent;
  return absl::StrCat(kKindNames[static_cast<int>(fault.kind)], ", worker ", fault.worker,
                      has_peer ? absl::StrCat(" with ", fault.peer) : "", ", for ",
                      absl::FormatDuration(fault.duration), ", at ",
                      kMomentNames[static_cast<int>(fault.moment)], " number ", fault.count, " + ",
                      absl::FormatDuration(fault.delay));
}

}  // namespace gradwire::simulate
