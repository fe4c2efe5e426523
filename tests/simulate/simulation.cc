#include "tests/simulate/simulation.h"

#include <cstdio>
#include <cstdlib>

#include "tests/simulate/world.h"

namespace gradwire::simulate {

const Digests& Simulation::ExpectedOf(const Setup& setup) {
  const Kind kind{setup.world_size, setup.optimizer, setup.wide};
  const auto found = expected_.find(kind);
  if (found != expected_.end()) return found->second;
  World world(FaultlessSetup(setup), Plant::kNone, nullptr, /*is_traced=*/false);
  world.Run();
  if (!world.journal().failure().empty()) {
    std::fprintf(stderr, "simulate: the faultless run of %s fails: %s\n", Describe(setup).c_str(),
                 world.journal().failure().c_str());
    std::exit(1);
  }
  return expected_[kind] = world.checks().digests();
}

Ending Simulation::Run(const Setup& setup, Plant plant, bool is_traced) {
  World world(setup, plant, &ExpectedOf(setup), is_traced);
  world.Run();
  return {world.journal().failure(), world.checks().losses(), world.checks().returns(),
          world.journal().lines()};
}

}  // namespace gradwire::simulate
