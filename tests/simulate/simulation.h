#ifndef GRADWIRE_TESTS_SIMULATE_SIMULATION_H_
#define GRADWIRE_TESTS_SIMULATE_SIMULATION_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/simulate/checks.h"
#include "tests/simulate/plants.h"
#include "tests/simulate/setup.h"

namespace gradwire::simulate {

// How a run went.
struct Ending {
  std::string failure;  // empty: all checks held
  int losses = 0;       // views that others were lost before
  int returns = 0;      // views of all that were there before
  std::vector<std::string> trace;
};

// Runs setups, each with the checks against the faultless run of the same ranks and model, which is
// made once.
class Simulation {
 public:
  Ending Run(const Setup& setup, Plant plant, bool is_traced);

 private:
  using Kind = std::tuple<int, std::string, bool>;  // world size, optimiser, wide
  const Digests& ExpectedOf(const Setup& setup);

  std::map<Kind, Digests> expected_;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_SIMULATION_H_
