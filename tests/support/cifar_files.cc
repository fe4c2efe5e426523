#include "tests/support/cifar_files.h"

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {

std::string CifarRecords(int records) {
  std::string bytes;
  for (int record = 0; record < records; ++record) {
    const int label = record % 10;
    bytes.push_back(static_cast<char>(label));
    for (int pixel = 1; pixel < kCifarRecordBytes; ++pixel) {
      bytes.push_back(static_cast<char>((label * 25 + pixel % 7 + record % 3) % 256));
    }
  }
  return bytes;
}

void WriteCifarFiles(const std::string& dir, int records) {
  const std::string bytes = CifarRecords(records);
  for (int batch = 1; batch <= 5; ++batch) {
    WriteFile(absl::StrCat(dir, "/data_batch_", batch, ".bin"), bytes);
  }
  WriteFile(absl::StrCat(dir, "/test_batch.bin"), bytes);
  WriteFile(absl::StrCat(dir, "/batches.meta.txt"),
            "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n");
}

}  // namespace gradwire::testing
