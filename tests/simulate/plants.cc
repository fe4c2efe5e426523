#include "tests/simulate/plants.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire::simulate {

const std::vector<PlantRow>& AllPlants() {
  static const auto* const rows = new std::vector<PlantRow>{
#define GRADWIRE_PLANT(id, name, help) {Plant::id, name, help},
#include "tests/simulate/plants.inc"
#undef GRADWIRE_PLANT
  };
  return *rows;
}

absl::StatusOr<PlantRow> FindPlant(const std::string& name) {
  for (const PlantRow& row : AllPlants()) {
    if (name == row.name) return row;
  }
  return absl::NotFoundError(absl::StrCat(
      "plant: got '", name, "', expected all or one of ",
      absl::StrJoin(AllPlants(), ", ",
                    [](std::string* out, const PlantRow& row) { out->append(row.name); })));
}

}  // namespace gradwire::simulate
