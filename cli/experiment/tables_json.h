#ifndef GRADWIRE_CLI_EXPERIMENT_TABLES_JSON_H_
#define GRADWIRE_CLI_EXPERIMENT_TABLES_JSON_H_

#include <nlohmann/json.hpp>

namespace gradwire {

// Returns the names in the program's tables, so that experiments repeat none of them:
//
//   models, datasets, wires, compressions, operations (of collectives)   lists of names
//   syncs      by name: backend (the default)
//   backends   by name: loads_workers_alike (no rank and no coordinator carries more than the
//              others), exact (its float32 mean is the fold, bit for bit)
nlohmann::ordered_json TablesJson();

}  // namespace gradwire

#endif  // GRADWIRE_CLI_EXPERIMENT_TABLES_JSON_H_
