#include "worker/data/datasets/idx.h"

namespace gradwire {

absl::StatusOr<std::shared_ptr<const Dataset>> LoadMnist(const std::string& data_dir, Split split) {
  IdxDatasetSpec spec;
  spec.name = "mnist";
  spec.how_to_get =
      "`deploy/fetch-mnist DIR` gets the files; `--dataset fashion-mnist` has the same shape and "
      "is "
      "in Debian's dataset-fashion-mnist";
  spec.mean = 0.1307f;
  spec.std_dev = 0.3081f;
  return LoadIdxDataset(spec, data_dir, split);
}

}  // namespace gradwire
