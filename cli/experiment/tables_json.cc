#include "cli/experiment/tables_json.h"

#include "bench/operations.h"
#include "common/compress/compression.h"
#include "common/wire/layout.h"
#include "worker/options/choices.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

Json Compressions() {
  return {
      kNoCompression,
#define GRADWIRE_CODEC(name, ...) name,
#define GRADWIRE_FACTORS(name, ...) name,
#include "common/wire/codecs.inc"
  };
}

Json Backends() {
  Json backends = Json::object();
  for (const std::string& name : NamesOf(BackendChoices())) {
    const BackendTraits traits = TraitsOfBackend(name);
    backends[name] = {{"loads_workers_alike", LoadsWorkersAlike(traits.links)},
                      {"exact", traits.exact != Exact::kNever}};
  }
  return backends;
}

}  // namespace

Json TablesJson() {
  return {{"models", NamesOf(ModelChoices())},
          {"datasets", NamesOf(DatasetChoices())},
          {"wires", WireNames()},
          {"compressions", Compressions()},
          {"operations", OperationNames()},
          {"syncs", NamesOf(SyncChoices())},
          {"backends", Backends()}};
}

}  // namespace gradwire
