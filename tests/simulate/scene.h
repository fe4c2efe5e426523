#ifndef GRADWIRE_TESTS_SIMULATE_SCENE_H_
#define GRADWIRE_TESTS_SIMULATE_SCENE_H_

#include <functional>

#include "tests/simulate/checks.h"
#include "tests/simulate/events.h"
#include "tests/simulate/journal.h"
#include "tests/simulate/plants.h"
#include "tests/simulate/random.h"
#include "tests/simulate/setup.h"

namespace gradwire::simulate {

// What all parts of a simulation have in common.
struct Scene {
  Scene(const Setup& setup, Plant plant, const Digests* expected, bool is_traced)
      : setup(setup),
        plant(plant),
        random(setup.seed),
        journal(&events, is_traced),
        checks(&journal, setup.steps, expected) {}

  bool IsPlanted(Plant which) const { return plant == which; }

  const Setup setup;
  const Plant plant;
  Events events;
  Random random;
  Journal journal;
  Checks checks;
  // A worker (-1: the coordinator) came to a point that a fault may wait for.
  std::function<void(Moment, int worker)> reached;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_SCENE_H_
