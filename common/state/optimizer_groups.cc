#include "common/state/optimizer_groups.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/tensors/pickle_writer.h"

namespace gradwire {
namespace {

using Items = std::vector<std::pair<std::string, std::string>>;

// Adds the options of the manifest with these names.
absl::Status AddReals(const ManifestOptimizer& optimizer, const std::vector<std::string>& names,
                      Items* items) {
  for (const std::string& name : names) {
    const auto found = optimizer.options.find(name);
    if (found == optimizer.options.end()) {
      return Unexpected("manifest.json", absl::StrCat("no '", name, "' of its optimizer"), "one");
    }
    items->emplace_back(PickledText(name), PickledReal(found->second));
  }
  return absl::OkStatus();
}

void AddConstants(const Items& constants, Items* items) {
  for (const auto& [name, value] : constants) items->emplace_back(PickledText(name), value);
}

absl::Status AddSgd(const ManifestOptimizer& optimizer, Items* items) {
  const auto nesterov = optimizer.options.find("nesterov");
  const bool is_nesterov = nesterov != optimizer.options.end() && nesterov->second != 0;
  AddConstants({{"dampening", PickledReal(0)},
                {"nesterov", PickledBool(is_nesterov)},
                {"maximize", PickledBool(false)},
                {"foreach", PickledNone()},
                {"differentiable", PickledBool(false)}},
               items);
  return AddReals(optimizer, {"lr", "momentum", "weight_decay"}, items);
}

absl::Status AddAdam(const ManifestOptimizer& optimizer, Items* items) {
  AddConstants({{"betas", PickledTuple({PickledReal(0.9), PickledReal(0.999)})},
                {"eps", PickledReal(1e-8)},
                {"amsgrad", PickledBool(false)},
                {"maximize", PickledBool(false)},
                {"foreach", PickledNone()},
                {"capturable", PickledBool(false)},
                {"differentiable", PickledBool(false)}},
               items);
  return AddReals(optimizer, {"lr", "weight_decay"}, items);
}

// By optimizer, what adds the options that torch keeps with a group of parameters.
const std::map<std::string, absl::Status (*)(const ManifestOptimizer&, Items*)> kGroups = {
    {"sgd", AddSgd}, {"adam", AddAdam}, {"adamw", AddAdam}};

}  // namespace

absl::StatusOr<std::string> PickleGroup(const ManifestOptimizer& optimizer, int64_t parameters) {
  const auto group = kGroups.find(optimizer.name);
  if (group == kGroups.end()) {
    return Unexpected("the run's optimizer", absl::StrCat("'", optimizer.name, "'"),
                      "sgd, adam or adamw; without --optimizer-to the model is exported");
  }
  Items items;
  if (absl::Status status = group->second(optimizer, &items); !status.ok()) return status;
  std::vector<std::string> places;
  for (int64_t i = 0; i < parameters; ++i) places.push_back(PickledInteger(i));
  items.emplace_back(PickledText("params"), PickledList(places));
  return PickledDict(items);
}

}  // namespace gradwire
