#include "common/state/optimizer_groups.h"

#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/tensors/pickle_writer.h"

namespace gradwire {
namespace {

using Items = std::vector<std::pair<std::string, std::string>>;

// An option of torch, and its default there.
struct OptionRow {
  const char* name;
  double initial;
  bool is_bool = false;
};

// By optimizer, the options that torch keeps with a group of parameters, besides lr and kCommon.
const std::map<std::string, std::vector<OptionRow>> kOptions = {
    {"sgd", {{"momentum", 0}, {"dampening", 0}, {"weight_decay", 0}, {"nesterov", 0, true}}},
    {"adam",
     {{"beta1", 0.9},
      {"beta2", 0.999},
      {"eps", 1e-8},
      {"weight_decay", 0},
      {"amsgrad", 0, true},
      {"capturable", 0, true}}},
    {"adamw",
     {{"beta1", 0.9},
      {"beta2", 0.999},
      {"eps", 1e-8},
      {"weight_decay", 1e-2},
      {"amsgrad", 0, true},
      {"capturable", 0, true}}},
    {"rmsprop",
     {{"momentum", 0}, {"alpha", 0.99}, {"eps", 1e-8}, {"centered", 0, true}, {"weight_decay", 0}}},
    {"adagrad",
     {{"lr_decay", 0}, {"eps", 1e-10}, {"weight_decay", 0}, {"initial_accumulator_value", 0}}}};

// Options of PyTorch alone.
const Items kCommon = {{PickledText("maximize"), PickledBool(false)},
                       {PickledText("foreach"), PickledNone()},
                       {PickledText("differentiable"), PickledBool(false)}};

double ValueOf(const ManifestOptimizer::Group& group, const OptionRow& row) {
  const auto found = group.options.find(row.name);
  return found == group.options.end() ? row.initial : found->second;
}

absl::StatusOr<Items> OptionsOf(const ManifestOptimizer::Group& group,
                                const std::vector<OptionRow>& rows) {
  const auto lr = group.options.find("lr");
  if (lr == group.options.end()) {
    return Unexpected("manifest.json", "no 'lr' of its optimizer", "one");
  }
  Items items = kCommon;
  items.emplace_back(PickledText("lr"), PickledReal(lr->second));
  std::vector<std::string> betas;
  for (const OptionRow& row : rows) {
    const double value = ValueOf(group, row);
    if (row.name == std::string("beta1") || row.name == std::string("beta2")) {
      betas.push_back(PickledReal(value));
    } else {
      items.emplace_back(PickledText(row.name),
                         row.is_bool ? PickledBool(value != 0) : PickledReal(value));
    }
  }
  if (!betas.empty()) items.emplace_back(PickledText("betas"), PickledTuple(betas));
  return items;
}

// A group that lists no parameters has all of them if it is the only one, else none.
std::vector<int64_t> PlacesOf(const ManifestOptimizer::Group& group, bool only,
                              int64_t parameters) {
  if (!only || !group.parameters.empty()) return group.parameters;
  std::vector<int64_t> places(static_cast<size_t>(parameters));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

// Gives the parameter at each of the places the next number, and returns the list of these.
absl::StatusOr<std::string> NumberParameters(const std::vector<int64_t>& places,
                                             std::map<int64_t, int64_t>* numbers) {
  std::vector<std::string> pickled;
  for (const int64_t place : places) {
    const auto number = static_cast<int64_t>(numbers->size());
    if (!numbers->emplace(place, number).second) {
      return Unexpected("manifest.json",
                        absl::StrCat("parameter ", place, " of its optimizer twice"),
                        "each parameter once");
    }
    pickled.push_back(PickledInteger(number));
  }
  return PickledList(pickled);
}

}  // namespace

absl::StatusOr<OptimizerGroups> MakeOptimizerGroups(const ManifestOptimizer& optimizer,
                                                    int64_t parameters) {
  if (optimizer.name.empty()) {
    return absl::InvalidArgumentError(
        "the checkpoint has no optimizer of all ranks, because each rank has its own, or its own "
        "momentum (local-sgd, diloco, top-k); without --optimizer-to the model is exported");
  }
  const auto rows = kOptions.find(optimizer.name);
  if (rows == kOptions.end()) {
    return Unexpected(
        "the run's optimizer", absl::StrCat("'", optimizer.name, "'"),
        "sgd, adam, adamw, rmsprop or adagrad; without --optimizer-to the model is exported");
  }
  OptimizerGroups made;
  const bool only = optimizer.groups.size() == 1;
  std::vector<std::string> groups;
  for (const ManifestOptimizer::Group& group : optimizer.groups) {
    absl::StatusOr<Items> items = OptionsOf(group, rows->second);
    if (!items.ok()) return items.status();
    const absl::StatusOr<std::string> numbers =
        NumberParameters(PlacesOf(group, only, parameters), &made.numbers);
    if (!numbers.ok()) return numbers.status();
    items->emplace_back(PickledText("params"), *numbers);
    groups.push_back(PickledDict(*items));
  }
  made.param_groups = PickledList(groups);
  return made;
}

}  // namespace gradwire
