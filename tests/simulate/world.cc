#include "tests/simulate/world.h"

#include <algorithm>
#include <utility>

#include "tests/simulate/sim_worker.h"

namespace gradwire::simulate {
namespace {

// Beyond what any run needs.
constexpr absl::Duration kLongestRun = absl::Minutes(60);
constexpr uint64_t kMostEvents = 5'000'000;

int WorkerOf(SessionId session) { return static_cast<int>(session.value()) - 1; }

}  // namespace

World::World(const Setup& setup, Plant plant, const Digests* expected, bool is_traced)
    : scene_(setup, plant, expected, is_traced), moments_(setup.faults.size()) {
  torch::set_num_threads(1);  // their number decides bits
  scene_.reached = [this](Moment moment, int worker) { OnMoment(moment, worker); };
  coordinator_ = std::make_unique<SimCoordinator>(
      &scene_, SimCoordinator::Ports{[this](SessionId session, v1::CoordinatorMessage message) {
                                       SimWorker* worker = workers_[WorkerOf(session)].get();
                                       sessions_[WorkerOf(session)].down->Send(
                                           [worker, message = std::move(message)] {
                                             worker->OnMessage(message);
                                           });
                                     },
                                     [this](SessionId session, const absl::Status& status) {
                                       SimWorker* worker = workers_[WorkerOf(session)].get();
                                       sessions_[WorkerOf(session)].down->Send(
                                           [worker, status] { worker->OnSessionEnd(status); });
                                     },
                                     [this] { Begin(); }});
  for (int i = 0; i < setup.workers; ++i) AddWorker(i);
}

World::~World() = default;

void World::AddWorker(int index) {
  const SessionId session(static_cast<uint64_t>(index) + 1);
  workers_.push_back(std::make_unique<SimWorker>(
      &scene_, index,
      SimWorker::Ports{[this, index, session](v1::WorkerMessage message) {
                         sessions_[index].up->Send([this, session, message = std::move(message)] {
                           coordinator_->OnMessage(session, message);
                         });
                       },
                       [this](const View& view) { return EndpointsOf(view); },
                       [this](const SimEndpoint& endpoint) { return IsReachable(endpoint); }}));
  sessions_.push_back({std::make_unique<Pipe>(&scene_, coordinator_->process()),
                       std::make_unique<Pipe>(&scene_, workers_.back()->process())});
}

// As the back ends `sharded` and `coordinator`.
std::vector<SimEndpoint> World::EndpointsOf(const View& view) {
  if (!scene_.setup.sharded) {
    return {{absl::nullopt, -1, {0}, coordinator_->site(), coordinator_->process()}};
  }
  std::vector<SimEndpoint> endpoints;
  for (const Member& member : view.members) {
    const auto peer = static_cast<int>(member.incarnation.value());
    SimWorker* worker = workers_[peer].get();
    endpoints.push_back({member.incarnation, peer, {}, worker->site(), worker->process()});
    for (const Rank rank : member.ranks) endpoints.back().shares.push_back(rank.value());
  }
  return endpoints;
}

bool World::IsReachable(const SimEndpoint& endpoint) const {
  const bool is_gone = endpoint.peer >= 0 && workers_[endpoint.peer]->is_done();
  return !is_gone && endpoint.process->is_alive() && !endpoint.process->is_paused();
}

bool World::IsDone() const {
  return scene_.checks.is_over() &&
         std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->is_done(); });
}

void World::Run() {
  coordinator_->Start();
  for (const auto& worker : workers_) worker->Start();
  const absl::Time deadline = scene_.events.now() + kLongestRun;
  while (scene_.journal.failure().empty() && !IsDone()) {
    if (!scene_.events.RunNext()) scene_.journal.Fail("nothing happens any more");
    if (scene_.events.now() > deadline || scene_.events.count() > kMostEvents) {
      scene_.journal.Fail("the run does not end");
    }
  }
  if (scene_.journal.failure().empty()) scene_.checks.OnEnd();
}

void World::Begin() {
  if (std::exchange(has_begun_, true)) return;
  for (const Fault& fault : scene_.setup.faults) {
    if (fault.moment == Moment::kTime) Schedule(fault);
  }
}

void World::OnMoment(Moment moment, int worker) {
  for (size_t i = 0; i < moments_.size(); ++i) {
    const Fault& fault = scene_.setup.faults[i];
    if (fault.moment != moment || (worker >= 0 && worker != fault.worker)) continue;
    if (++moments_[i] == fault.count) Schedule(fault);
  }
}

void World::Schedule(const Fault& fault) {
  scene_.events.After(fault.delay, [this, &fault] { Strike(fault); });
}

void World::Touch(const Fault& fault) {
  if (scene_.setup.waits) return;
  const bool has_peer =
      fault.kind == FaultKind::kDataBreaks || fault.kind == FaultKind::kDataSilent;
  scene_.checks.OnTouched(workers_[fault.worker]->incarnation());
  if (has_peer) scene_.checks.OnTouched(workers_[fault.peer]->incarnation());
}

void World::Strike(const Fault& fault) {
  if (fault.kind == FaultKind::kCoordinatorPause) return PauseCoordinator(fault.duration);
  if (workers_[fault.worker]->is_done() || scene_.checks.is_over()) return;
  scene_.journal.Say("FAULT ", Describe(fault));
  Touch(fault);
  const int peer = scene_.setup.sharded ? fault.peer : -1;
  switch (fault.kind) {
    case FaultKind::kCrash:
      return Crash(fault.worker);
    case FaultKind::kStop:
      return workers_[fault.worker]->process()->Take(
          [worker = workers_[fault.worker].get()] { worker->Stop(); });
    case FaultKind::kPause:
      return Pause(fault.worker, fault.duration);
    case FaultKind::kSessionBreaks:
      return BreakSession(fault.worker);
    case FaultKind::kSilentUp:
      return Silence(fault.worker, sessions_[fault.worker].up.get(), fault.duration);
    case FaultKind::kSilentDown:
      return Silence(fault.worker, sessions_[fault.worker].down.get(), fault.duration);
    case FaultKind::kDataBreaks:
      return BreakData(fault.worker, peer);
    case FaultKind::kDataSilent:
      return SilenceData(fault.worker, peer, fault.duration);
    case FaultKind::kSlow:
      sessions_[fault.worker].up->Slow(fault.duration);
      if (SimExchange* exchange = workers_[fault.worker]->exchange()) {
        exchange->Slow(fault.duration);
      }
      return;
    case FaultKind::kHang:
      return Hang(fault.worker);
    case FaultKind::kCoordinatorPause:
      return;
  }
}

// Others wait for it until one of them says so; what else goes wrong may have them begin anew. In
// the end somebody kills it, as the process of a worker that is lost ends itself.
void World::Hang(int worker) {
  workers_[worker]->Hang();
  const absl::Duration patience = 4 * scene_.setup.step_timeout + WaitBound(scene_.setup);
  scene_.events.After(patience, [this, worker] {
    if (workers_[worker]->is_done()) return;
    scene_.checks.OnSilent(workers_[worker]->incarnation());
    Crash(worker);
  });
}

void World::Soon(Process* process, Process::Event event) {
  const absl::Duration delay = scene_.random.Between(absl::Microseconds(20), absl::Milliseconds(3));
  scene_.events.After(delay, [process, event = std::move(event)] { process->Take(event); });
}

// What was on its way may arrive, or not.
void World::Crash(int worker) {
  if (scene_.random.OneIn(2) && workers_[worker]->exchange() != nullptr) {
    workers_[worker]->exchange()->Cut();
  }
  if (scene_.random.OneIn(2)) sessions_[worker].up->Cut();
  workers_[worker]->Kill();
  const SessionId session(static_cast<uint64_t>(worker) + 1);
  Soon(coordinator_->process(),
       [this, session] { coordinator_->OnStreamClosed(session, "its session stream broke"); });
  BreakDataWith(worker);
}

void World::BreakDataWith(int peer) {
  for (int other = 0; other < static_cast<int>(workers_.size()); ++other) {
    if (other != peer) BreakData(other, peer);
  }
}

void World::BreakData(int worker, int peer) {
  SimWorker* at = workers_[worker].get();
  Soon(at->process(), [at, peer] {
    if (at->exchange() != nullptr) at->exchange()->Break(peer);
  });
}

void World::SilenceData(int worker, int peer, absl::Duration duration) {
  if (SimExchange* exchange = workers_[worker]->exchange()) {
    exchange->Hold(peer, scene_.events.now() + duration);
  }
  if (duration < kKeepalive) return;
  scene_.events.After(kKeepalive, [this, worker, peer] { BreakData(worker, peer); });
}

absl::Duration World::LeaseAndMore() const {
  return scene_.setup.lease + absl::Seconds(2) * static_cast<int>(1 + scene_.setup.faults.size());
}

// Keepalive finds a process that does not answer, as it does a dead host.
void World::Pause(int worker, absl::Duration duration) {
  workers_[worker]->Pause();
  scene_.events.After(duration, [this, worker] { workers_[worker]->Continue(); });
  const absl::Time paused = scene_.events.now();
  scene_.events.After(LeaseAndMore(), [this, worker, paused] {
    const SimWorker& at = *workers_[worker];
    if (!at.process()->is_paused() || at.continued() > paused) return;
    scene_.checks.OnSilent(at.incarnation());
  });
  if (duration < kKeepalive) return;
  scene_.events.After(kKeepalive, [this, worker] {
    BreakDataWith(worker);
    BreakSession(worker);
  });
}

void World::PauseCoordinator(absl::Duration duration) {
  scene_.journal.Say("FAULT the coordinator pauses for ", absl::FormatDuration(duration));
  coordinator_->process()->Pause();
  scene_.events.After(duration, [this] { coordinator_->process()->Continue(); });
}

void World::BreakSession(int worker) {
  sessions_[worker].up->Cut();
  sessions_[worker].down->Cut();
  const SessionId session(static_cast<uint64_t>(worker) + 1);
  Soon(coordinator_->process(),
       [this, session] { coordinator_->OnStreamClosed(session, "its session stream broke"); });
  SimWorker* at = workers_[worker].get();
  Soon(at->process(), [at] { at->OnSessionEnd(absl::UnavailableError("lost the coordinator")); });
}

void World::Silence(int worker, Pipe* pipe, absl::Duration duration) {
  pipe->Hold(scene_.events.now() + duration);
  if (duration < kKeepalive) return;
  scene_.events.After(kKeepalive, [this, worker] { BreakSession(worker); });
}

}  // namespace gradwire::simulate
