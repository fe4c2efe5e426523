#ifndef GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_OUTCOME_H_
#define GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_OUTCOME_H_

#include <variant>
#include <vector>

#include "coordinator/membership/membership.h"

namespace gradwire::testing {

// What of one kind an outcome asks for.
template <typename T>
std::vector<T> All(const Outcome& outcome) {
  std::vector<T> found;
  for (const Action& action : outcome.actions) {
    if (const T* match = std::get_if<T>(&action)) found.push_back(*match);
  }
  return found;
}

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_OUTCOME_H_
