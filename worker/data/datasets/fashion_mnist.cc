#include "worker/data/datasets/idx.h"

namespace gradwire {

absl::StatusOr<std::shared_ptr<const Dataset>> LoadFashionMnist(const std::string& data_dir,
                                                                Split split) {
  constexpr char kDebianDir[] = "/usr/share/datasets/fashion-mnist";
  IdxDatasetSpec spec;
  spec.name = "fashion-mnist";
  spec.how_to_get = "`apt-get install dataset-fashion-mnist` gets the files";
  spec.mean = 0.2860f;
  spec.std_dev = 0.3530f;
  return LoadIdxDataset(spec, data_dir.empty() ? kDebianDir : data_dir, split);
}

}  // namespace gradwire
