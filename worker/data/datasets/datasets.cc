#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/data/dataset.h"

namespace gradwire {

#define GRADWIRE_DATASET(name, loader, help) \
  absl::StatusOr<std::shared_ptr<const Dataset>> loader(const std::string& data_dir, Split split);
#include "worker/options/datasets.inc"
#undef GRADWIRE_DATASET

namespace {

constexpr absl::string_view kNames = ""
#define GRADWIRE_DATASET(name, loader, help) " " name
#include "worker/options/datasets.inc"
#undef GRADWIRE_DATASET
    ;

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadDataset(absl::string_view name,
                                                           const std::string& data_dir,
                                                           Split split) {
#define GRADWIRE_DATASET(entry, loader, help) \
  if (name == entry) return loader(data_dir, split);
#include "worker/options/datasets.inc"
#undef GRADWIRE_DATASET
  return absl::NotFoundError(
      absl::StrCat("data set '", name, "' does not exist; expected one of:", kNames));
}

}  // namespace gradwire
