#ifndef GRADWIRE_COMMON_TENSORS_ZIP_WRITER_H_
#define GRADWIRE_COMMON_TENSORS_ZIP_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/output_file.h"

namespace gradwire {

// Writes a zip archive of uncompressed records, front to back. All sizes have 64 bits (zip64), and
// a record's checksum follows its bytes, so that no record is read twice or held. The bytes of each
// record begin at a multiple of 64, as torch needs to map them. Not thread-safe.
class ZipWriter {
 public:
  explicit ZipWriter(WritePiece write) : write_(std::move(write)) {}

  // Adds a record of `bytes` bytes, which `content` passes in pieces. Returns the error of
  // `content`, and Internal if it passes another number of bytes; then give the archive up.
  absl::Status Add(absl::string_view name, int64_t bytes,
                   const std::function<absl::Status(const WritePiece& write)>& content);
  // Writes the directory of all records. Call once, last.
  void Finish();

 private:
  struct Record {
    std::string name;
    uint64_t bytes = 0;
    uint64_t offset = 0;  // of its header
    uint32_t crc = 0;
  };

  void Write(absl::string_view piece);
  void WriteHeader(const Record& record);
  std::string Entry(const Record& record) const;

  const WritePiece write_;
  uint64_t at_ = 0;
  std::vector<Record> records_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TENSORS_ZIP_WRITER_H_
