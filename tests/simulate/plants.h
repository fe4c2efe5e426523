#ifndef GRADWIRE_TESTS_SIMULATE_PLANTS_H_
#define GRADWIRE_TESTS_SIMULATE_PLANTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire::simulate {

enum class Plant {
  kNone,
#define GRADWIRE_PLANT(id, name, help) id,
#include "tests/simulate/plants.inc"
#undef GRADWIRE_PLANT
};

struct PlantRow {
  Plant plant;
  const char* name;
  const char* help;
};

// The rows of plants.inc.
const std::vector<PlantRow>& AllPlants();
// NotFound lists the names.
absl::StatusOr<PlantRow> FindPlant(const std::string& name);

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_PLANTS_H_
