#include "common/state/export.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/state/optimizer_groups.h"
#include "common/state/run_dir.h"
#include "common/state/tensor_reader.h"
#include "common/tensors/pickle_writer.h"
#include "common/tensors/safetensors_header.h"
#include "common/tensors/torch_archive.h"

namespace gradwire {
namespace {

constexpr char kBuffers[] = "/buffers/";

// A tensor of the checkpoint, and its key in the file.
struct Exported {
  StoredTensor tensor;
  int section = 0;
  int index = 0;  // of the section's tensors
};

// Returns the keys of a section's tensors that `rename` maps to a key; it returns "" for others.
template <typename Rename>
std::vector<Exported> Select(const StatePlan& plan, const char* name, const Rename& rename) {
  std::vector<Exported> selected;
  const int section = plan.FindSection(name);
  if (section < 0) return selected;
  const std::vector<StoredTensor>& tensors = plan.sections()[section].tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string key = rename(tensors[i].key);
    if (key.empty()) continue;
    selected.push_back({tensors[i], section, static_cast<int>(i)});
    selected.back().tensor.key = key;
  }
  return selected;
}

std::vector<Exported> ModelTensors(const StatePlan& plan) {
  std::vector<Exported> tensors =
      Select(plan, kModelSection, [](const std::string& key) { return key; });
  std::string prefix;  // "RANK/buffers/" of the first rank that has some
  const auto of_first_rank = [&prefix](const std::string& key) -> std::string {
    const size_t slash = key.find('/');
    if (slash == std::string::npos || key.compare(slash, sizeof(kBuffers) - 1, kBuffers) != 0) {
      return "";
    }
    if (prefix.empty()) prefix = key.substr(0, slash + sizeof(kBuffers) - 1);
    return absl::StartsWith(key, prefix) ? key.substr(prefix.size()) : "";
  };
  for (Exported& buffer : Select(plan, kRanksSection, of_first_rank)) {
    tensors.push_back(std::move(buffer));
  }
  return tensors;
}

// A file that cannot be written is as wrong as a wrong option.
absl::Status AsUsage(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

TensorSource SourceOf(const Exported& tensor, TensorReader* reader) {
  return [section = tensor.section, index = tensor.index, reader](const WritePiece& write) {
    return reader->Read(section, index, write);
  };
}

TensorStorage StorageOf(const Exported& tensor, TensorReader* reader) {
  return {*BytesOf(tensor.tensor.shape, tensor.tensor.type), SourceOf(tensor, reader)};
}

absl::Status StreamSafetensors(const std::vector<Exported>& tensors, TensorReader* reader,
                               const WritePiece& write) {
  std::vector<StoredTensor> stored;
  for (const Exported& tensor : tensors) stored.push_back(tensor.tensor);
  write(MakeSafetensorsHeader(stored));
  for (const Exported& tensor : tensors) {
    absl::Status status = reader->Read(tensor.section, tensor.index, write);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StreamTorch(const std::vector<Exported>& tensors, TensorReader* reader,
                         const WritePiece& write) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<TensorStorage> storages;
  for (const Exported& tensor : tensors) {
    entries.emplace_back(PickledText(tensor.tensor.key),
                         PickledTensor(tensor.tensor, static_cast<int>(storages.size())));
    storages.push_back(StorageOf(tensor, reader));
  }
  return StreamTorchArchive(PickleOf(PickledDict(entries)), storages, write);
}

// The state of one parameter, by its names in torch.
using ParameterState = std::map<std::string, Exported>;

// Returns the state of each parameter that has some, by its number.
absl::StatusOr<std::map<int64_t, ParameterState>> StatesOf(
    const StatePlan& plan, const std::map<int64_t, int64_t>& numbers) {
  std::map<std::string, int64_t> known;
  for (const Exported& parameter :
       Select(plan, kModelSection, [](const std::string& key) { return key; })) {
    const auto number = numbers.find(parameter.index);
    if (number != numbers.end()) known[parameter.tensor.key] = number->second;
  }
  std::map<int64_t, ParameterState> states;
  for (const Exported& tensor :
       Select(plan, kOptimizerSection, [](const std::string& key) { return key; })) {
    const size_t slash = tensor.tensor.key.rfind('/');
    const auto number = known.find(tensor.tensor.key.substr(0, slash));
    if (slash == std::string::npos || number == known.end()) {
      return Unexpected("optimizer", absl::StrCat("'", tensor.tensor.key, "'"),
                        "PARAMETER/NAME of a parameter of the optimizer");
    }
    states[number->second].emplace(tensor.tensor.key.substr(slash + 1), tensor);
  }
  return states;
}

// torch.optim counts the steps of Adam in float32, and we count them in int64.
absl::StatusOr<float> StepAsReal(const Exported& tensor, TensorReader* reader) {
  int64_t step = 0;
  std::string bytes;
  absl::Status status =
      reader->Read(tensor.section, tensor.index,
                   [&bytes](absl::string_view piece) { bytes.append(piece.data(), piece.size()); });
  if (!status.ok()) return status;
  if (tensor.tensor.type != TensorType::kInt64 || bytes.size() != sizeof(step)) {
    return Unexpected(absl::StrCat("optimizer '", tensor.tensor.key, "'"), Describe(tensor.tensor),
                      "I64 []");
  }
  bytes.copy(reinterpret_cast<char*>(&step), sizeof(step));
  return static_cast<float>(step);
}

// Adds the state of one parameter to the storages and returns its dict, pickled.
absl::StatusOr<std::string> PickleState(const ParameterState& state, TensorReader* reader,
                                        std::vector<TensorStorage>* storages) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& [name, tensor] : state) {
    StoredTensor stored = tensor.tensor;
    TensorStorage storage = StorageOf(tensor, reader);
    if (stored.type == TensorType::kInt64) {  // the step, which PyTorch keeps as a float
      const absl::StatusOr<float> step = StepAsReal(tensor, reader);
      if (!step.ok()) return step.status();
      stored = {"", TensorType::kFloat32, {}};
      storage.bytes = sizeof(float);
      storage.source = [value = *step](const WritePiece& write) {
        write({reinterpret_cast<const char*>(&value), sizeof(value)});
        return absl::OkStatus();
      };
    }
    items.emplace_back(PickledText(name),
                       PickledTensor(stored, static_cast<int>(storages->size())));
    storages->push_back(std::move(storage));
  }
  return PickledDict(items);
}

absl::Status StreamOptimizer(const CheckpointReader& checkpoint, const std::string& param_groups,
                             const std::map<int64_t, ParameterState>& states, TensorReader* reader,
                             const WritePiece& write) {
  std::vector<std::pair<std::string, std::string>> items;
  std::vector<TensorStorage> storages;
  for (const auto& [number, state] : states) {
    const absl::StatusOr<std::string> dict = PickleState(state, reader, &storages);
    if (!dict.ok()) return Annotate(dict.status(), CheckpointName(checkpoint.manifest().step));
    items.emplace_back(PickledInteger(number), *dict);
  }
  const std::string all = PickledDict(
      {{PickledText("state"), PickledDict(items)}, {PickledText("param_groups"), param_groups}});
  return StreamTorchArchive(PickleOf(all), storages, write);
}

}  // namespace

absl::Status ExportModel(const CheckpointReader& checkpoint, const std::string& path) {
  TensorReader reader(checkpoint);
  const std::vector<Exported> tensors = ModelTensors(checkpoint.plan());
  const auto stream = absl::EndsWith(path, ".safetensors") ? &StreamSafetensors : &StreamTorch;
  return AsUsage(
      ReplaceFile(path, [&](const WritePiece& write) { return stream(tensors, &reader, write); }));
}

absl::Status ExportOptimizer(const CheckpointReader& checkpoint, const std::string& path) {
  const StatePlan& plan = checkpoint.plan();
  const int model = plan.FindSection(kModelSection);
  const size_t parameters = model < 0 ? 0 : plan.sections()[model].tensors.size();
  const absl::StatusOr<OptimizerGroups> groups =
      MakeOptimizerGroups(checkpoint.manifest().optimizer, static_cast<int64_t>(parameters));
  if (!groups.ok()) return groups.status();
  const auto states = StatesOf(plan, groups->numbers);
  if (!states.ok()) return states.status();
  TensorReader reader(checkpoint);
  return AsUsage(ReplaceFile(path, [&](const WritePiece& write) {
    return StreamOptimizer(checkpoint, groups->param_groups, *states, &reader, write);
  }));
}

}  // namespace gradwire
