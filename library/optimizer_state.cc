#include "library/optimizer_state.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_util.h"
#include "common/state/state_plan.h"
#include "worker/learning/optimizer_key.h"

namespace gradwire {

using torch::optim::OptimizerParamState;

// The state of one parameter: tensors of its shape by their names in torch, and the count of steps
// (null: it has none). All are memory of the optimizer.
struct OptimizerFields {
  std::vector<std::pair<const char*, torch::Tensor*>> tensors;
  int64_t* step = nullptr;
};

namespace {

constexpr char kStep[] = "step";

OptimizerFields FieldsOf(torch::optim::SGDParamState& state) {
  return {{{"momentum_buffer", &state.momentum_buffer()}}};
}

// Of Adam and AdamW.
template <typename State>
OptimizerFields FieldsOf(State& state) {
  return {{{"exp_avg", &state.exp_avg()},
           {"exp_avg_sq", &state.exp_avg_sq()},
           {"max_exp_avg_sq", &state.max_exp_avg_sq()}},
          &state.step()};
}

OptimizerFields FieldsOf(torch::optim::RMSpropParamState& state) {
  return {{{"square_avg", &state.square_avg()},
           {"momentum_buffer", &state.momentum_buffer()},
           {"grad_avg", &state.grad_avg()}},
          &state.step()};
}

OptimizerFields FieldsOf(torch::optim::AdagradParamState& state) {
  return {{{"sum", &state.sum()}}, &state.step()};
}

// Options besides lr and weight_decay, by their names in a ParameterGroup.
using Options = std::map<std::string, double>;

Options OptionsOf(const torch::optim::SGDOptions& options) {
  return {{"momentum", options.momentum()},
          {"dampening", options.dampening()},
          {"nesterov", options.nesterov() ? 1 : 0}};
}

// Of Adam and AdamW.
template <typename T>
Options OptionsOf(const T& options) {
  return {{"beta1", std::get<0>(options.betas())},
          {"beta2", std::get<1>(options.betas())},
          {"eps", options.eps()},
          {"amsgrad", options.amsgrad() ? 1 : 0}};
}

Options OptionsOf(const torch::optim::RMSpropOptions& options) {
  return {{"momentum", options.momentum()},
          {"alpha", options.alpha()},
          {"eps", options.eps()},
          {"centered", options.centered() ? 1 : 0}};
}

Options OptionsOf(const torch::optim::AdagradOptions& options) {
  return {{"lr_decay", options.lr_decay()},
          {"eps", options.eps()},
          {"initial_accumulator_value", options.initial_accumulator_value()}};
}

}  // namespace

struct OptimizerRow {
  const char* name;
  bool (*is)(const torch::optim::Optimizer& optimizer);
  std::unique_ptr<OptimizerParamState> (*make)();
  OptimizerFields (*fields)(OptimizerParamState& state);
  std::map<std::string, double> (*options)(const torch::optim::OptimizerOptions& options);
};

namespace {

template <typename Optimizer, typename State, typename OptionsOfIt>
constexpr OptimizerRow RowOf(const char* name) {
  return {name,
          [](const torch::optim::Optimizer& optimizer) {
            return dynamic_cast<const Optimizer*>(&optimizer) != nullptr;
          },
          []() -> std::unique_ptr<OptimizerParamState> { return std::make_unique<State>(); },
          [](OptimizerParamState& state) { return FieldsOf(static_cast<State&>(state)); },
          [](const torch::optim::OptimizerOptions& options) {
            const auto& own = static_cast<const OptionsOfIt&>(options);
            Options all = OptionsOf(own);
            all["weight_decay"] = own.weight_decay();
            return all;
          }};
}

constexpr OptimizerRow kRows[] = {
    RowOf<torch::optim::SGD, torch::optim::SGDParamState, torch::optim::SGDOptions>("SGD"),
    RowOf<torch::optim::Adam, torch::optim::AdamParamState, torch::optim::AdamOptions>("Adam"),
    RowOf<torch::optim::AdamW, torch::optim::AdamWParamState, torch::optim::AdamWOptions>("AdamW"),
    RowOf<torch::optim::RMSprop, torch::optim::RMSpropParamState, torch::optim::RMSpropOptions>(
        "RMSprop"),
    RowOf<torch::optim::Adagrad, torch::optim::AdagradParamState, torch::optim::AdagradOptions>(
        "Adagrad")};

std::string KeyOfField(const std::string& parameter, const char* field) {
  return absl::StrCat(parameter, "/", field);
}

// Sets `fields` from `reader`; returns whether it has any.
absl::StatusOr<bool> Read(const StateReader& reader, const std::string& name,
                          const torch::Tensor& parameter, const OptimizerFields& fields) {
  bool any = false;
  if (fields.step != nullptr && reader.Find(kOptimizerSection, KeyOfField(name, kStep))) {
    const torch::Tensor step = torch::zeros({}, torch::kLong);
    absl::Status got = reader.Get(kOptimizerSection, KeyOfField(name, kStep), step);
    if (!got.ok()) return got;
    *fields.step = step.item<int64_t>();
    any = true;
  }
  for (const auto& [field, tensor] : fields.tensors) {
    if (!reader.Find(kOptimizerSection, KeyOfField(name, field))) continue;
    *tensor = torch::empty(parameter.sizes(), parameter.options().requires_grad(false));
    absl::Status got = reader.Get(kOptimizerSection, KeyOfField(name, field), *tensor);
    if (!got.ok()) return got;
    any = true;
  }
  return any;
}

}  // namespace

namespace {

// Returns the number of parameters of each group.
std::vector<size_t> SizesOf(torch::optim::Optimizer* optimizer) {
  std::vector<size_t> sizes;
  for (const auto& group : optimizer->param_groups()) sizes.push_back(group.params().size());
  return sizes;
}

}  // namespace

absl::StatusOr<OptimizerState> OptimizerState::Make(torch::optim::Optimizer* optimizer,
                                                    const NamedTensors& parameters) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const OptimizerRow& one) { return one.is(*optimizer); });
  if (row == std::end(kRows)) {
    std::vector<std::string> names;
    for (const OptimizerRow& one : kRows) names.emplace_back(one.name);
    return Unexpected("attach", "an optimizer of another kind",
                      absl::StrCat("one of ", absl::StrJoin(names, ", "),
                                   " (hooks can keep the state of others)"));
  }
  // A checkpoint has no empty tensors, so parameters without elements have the places after those
  // of its section `model`.
  NamedTensors ordered = parameters;
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const auto& one) { return one.second.numel() > 0; });
  OptimizerState state(optimizer, row);
  state.sizes_ = SizesOf(optimizer);
  state.description_ = row->name;
  std::set<uint32_t> listed;
  for (const auto& group : optimizer->param_groups()) {
    std::vector<std::string> names;
    std::vector<uint32_t>& places = state.places_.emplace_back();
    for (const torch::Tensor& parameter : group.params()) {
      const auto named = std::find_if(ordered.begin(), ordered.end(), [&](const auto& one) {
        return one.second.is_same(parameter);
      });
      if (named == ordered.end()) {
        return Unexpected("attach", "an optimizer of a parameter that is not the module's",
                          "parameters of the module only");
      }
      names.push_back(named->first);
      const auto place = static_cast<uint32_t>(named - ordered.begin());
      if (!listed.insert(place).second) continue;  // tied weights, which PyTorch lists once, too
      places.push_back(place);
      state.parameters_.push_back(*named);
    }
    absl::StrAppend(&state.description_, " [", absl::StrJoin(names, ", "), "]");
  }
  return state;
}

absl::Status OptimizerState::CheckGroups() const {
  const std::vector<size_t> sizes = SizesOf(optimizer_);
  if (sizes == sizes_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "end_step: got an optimizer with groups of ", absl::StrJoin(sizes, ", "),
      " parameters, expected ", absl::StrJoin(sizes_, ", "),
      ", as in attach, because a checkpoint has only their state; add all groups before attach"));
}

v1::OptimizerConfig OptimizerState::Config() const {
  v1::OptimizerConfig config;
  config.set_name(absl::AsciiStrToLower(row_->name));
  for (size_t i = 0; i < places_.size(); ++i) {
    const torch::optim::OptimizerOptions& options = optimizer_->param_groups()[i].options();
    v1::ParameterGroup& group = *config.add_groups();
    const Options own = row_->options(options);
    group.mutable_options()->insert(own.begin(), own.end());
    (*group.mutable_options())["lr"] = options.get_lr();
    group.mutable_parameters()->Add(places_[i].begin(), places_[i].end());
  }
  return config;
}

void OptimizerState::Copy(std::vector<StateTensorRef>* out) const {
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.numel() == 0) continue;  // a checkpoint has no empty tensors
    auto& states = optimizer_->state();
    const auto found = states.find(OptimizerKeyOf(states, parameter));
    if (found == states.end()) continue;
    const OptimizerFields fields = row_->fields(*found->second);
    if (fields.step != nullptr) {
      out->push_back({kOptimizerSection, KeyOfField(name, kStep),
                      torch::tensor(*fields.step, torch::kLong), /*common=*/true});
    }
    for (const auto& [field, tensor] : fields.tensors) {
      if (!tensor->defined()) continue;
      out->push_back({kOptimizerSection, KeyOfField(name, field),
                      tensor->detach().clone(at::MemoryFormat::Contiguous), /*common=*/true});
    }
  }
}

absl::Status OptimizerState::Restore(const StateReader& reader) {
  auto& states = optimizer_->state();
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.numel() == 0) continue;  // its state is made anew
    std::unique_ptr<OptimizerParamState> made = row_->make();
    const absl::StatusOr<bool> any = Read(reader, name, parameter, row_->fields(*made));
    if (!any.ok()) return any.status();
    const auto key = OptimizerKeyOf(states, parameter);
    if (*any) {
      states[key] = std::move(made);
    } else {
      states.erase(key);
    }
  }
  return absl::OkStatus();
}

}  // namespace gradwire
