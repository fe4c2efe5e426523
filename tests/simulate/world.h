#ifndef GRADWIRE_TESTS_SIMULATE_WORLD_H_
#define GRADWIRE_TESTS_SIMULATE_WORLD_H_

#include <memory>
#include <vector>

#include "tests/simulate/pipe.h"
#include "tests/simulate/scene.h"
#include "tests/simulate/sim_coordinator.h"

namespace gradwire::simulate {

class SimWorker;
struct SimEndpoint;

// One run: a coordinator, its workers, what is between them, and what goes wrong.
//
//   SimCoordinator ─── session: a Pipe each way ─── SimWorker ─── lanes: Pipes ─── other SimWorkers
//     Membership                                      Trainer, ViewChanges           or coordinator
//     Site (Aggregator)                               SimExchange, Site (Aggregator)
//                                 Events: one after the other, in virtual time
class World {
 public:
  World(const Setup& setup, Plant plant, const Digests* expected, bool is_traced);
  ~World();

  // Until the run is over, or something is wrong.
  void Run();

  const Journal& journal() const { return scene_.journal; }
  const Checks& checks() const { return scene_.checks; }

 private:
  struct Session {
    std::unique_ptr<Pipe> up;
    std::unique_ptr<Pipe> down;
  };

  void AddWorker(int index);
  std::vector<SimEndpoint> EndpointsOf(const View& view);
  bool IsReachable(const SimEndpoint& endpoint) const;
  bool IsDone() const;

  // Faults may strike from now on.
  void Begin();
  void OnMoment(Moment moment, int worker);
  void Schedule(const Fault& fault);
  void Strike(const Fault& fault);
  void Touch(const Fault& fault);
  void Crash(int worker);
  void Hang(int worker);
  void Pause(int worker, absl::Duration duration);
  void PauseCoordinator(absl::Duration duration);
  void BreakSession(int worker);
  void Silence(int worker, Pipe* pipe, absl::Duration duration);
  void SilenceData(int worker, int peer, absl::Duration duration);
  void BreakData(int worker, int peer);
  void BreakDataWith(int peer);
  // Leases and ticks, and what was on its way when it fell silent.
  absl::Duration LeaseAndMore() const;
  // Soon, on a path of its own.
  void Soon(Process* process, Process::Event event);

  Scene scene_;
  bool has_begun_ = false;
  std::vector<int> moments_;  // by fault: how often what it waits for has come
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<Session> sessions_;  // by worker
  std::vector<std::unique_ptr<SimWorker>> workers_;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_WORLD_H_
