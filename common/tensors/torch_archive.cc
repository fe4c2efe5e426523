#include "common/tensors/torch_archive.h"

#include "absl/strings/str_cat.h"
#include "common/tensors/zip_writer.h"

namespace gradwire {
namespace {

constexpr char kArchive[] = "archive/";
constexpr char kTorchVersion[] = "3\n";  // of the format of torch.save

absl::Status AddText(ZipWriter* zip, absl::string_view name, absl::string_view text) {
  return zip->Add(absl::StrCat(kArchive, name), static_cast<int64_t>(text.size()),
                  [text](const WritePiece& write) {
                    write(text);
                    return absl::OkStatus();
                  });
}

}  // namespace

absl::Status StreamTorchArchive(absl::string_view pickle,
                                const std::vector<TensorStorage>& storages,
                                const WritePiece& write) {
  ZipWriter zip(write);
  absl::Status status = AddText(&zip, "data.pkl", pickle);
  for (size_t i = 0; status.ok() && i < storages.size(); ++i) {
    status = zip.Add(absl::StrCat(kArchive, "data/", i), storages[i].bytes, storages[i].source);
  }
  if (status.ok()) status = AddText(&zip, "version", kTorchVersion);
  if (status.ok()) zip.Finish();
  return status;
}

}  // namespace gradwire
