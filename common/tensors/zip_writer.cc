#include "common/tensors/zip_writer.h"

#include <zlib.h>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr uint64_t kRecordAlignment = 64;
constexpr uint16_t kZip64Version = 45;     // the first with zip64
constexpr uint16_t kChecksumAfter = 8;     // flag: a descriptor follows the bytes
constexpr uint16_t kMidnight = 0;          // midnight
constexpr uint16_t kFirstDay = 33;         // of 1 January 1980, the first of the format
constexpr uint32_t kInZip64 = 0xffffffff;  // the value is in the zip64 field
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kPaddingField = 0x4246;
constexpr uint64_t kHeaderBytes = 30;

// The bytes of numbers, little endian, one after the other.
template <typename... Numbers>
std::string Packed(Numbers... numbers) {
  std::string packed;
  (packed.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return packed;
}

uint16_t Size16(absl::string_view text) { return static_cast<uint16_t>(text.size()); }

// Returns a field that makes a header of `bytes` bytes end at a multiple of kRecordAlignment.
std::string Padding(uint64_t bytes) {
  constexpr uint64_t kFieldBytes = 4;
  const uint64_t padding =
      (kRecordAlignment - (bytes + kFieldBytes) % kRecordAlignment) % kRecordAlignment;
  return absl::StrCat(Packed(kPaddingField, static_cast<uint16_t>(padding)),
                      std::string(padding, 'Z'));
}

}  // namespace

void ZipWriter::Write(absl::string_view piece) {
  at_ += piece.size();
  write_(piece);
}

void ZipWriter::WriteHeader(const Record& record) {
  std::string fields = Packed(kZip64Field, uint16_t{16}, record.bytes, record.bytes);
  absl::StrAppend(&fields, Padding(at_ + kHeaderBytes + record.name.size() + fields.size()));
  Write(Packed(uint32_t{0x04034b50}, kZip64Version, kChecksumAfter, uint16_t{0}, kMidnight,
               kFirstDay, uint32_t{0}, kInZip64, kInZip64, Size16(record.name), Size16(fields)));
  Write(record.name);
  Write(fields);
}

absl::Status ZipWriter::Add(absl::string_view name, int64_t bytes,
                            const std::function<absl::Status(const WritePiece& write)>& content) {
  Record record{std::string(name), static_cast<uint64_t>(bytes), at_, 0};
  WriteHeader(record);
  const uint64_t begin = at_;
  uLong crc = crc32_z(0, nullptr, 0);
  const absl::Status status = content([&](absl::string_view piece) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    Write(piece);
  });
  if (!status.ok()) return status;
  if (at_ - begin != record.bytes) {
    return absl::InternalError(
        absl::StrCat(name, ": got ", at_ - begin, " bytes, expected ", bytes));
  }
  record.crc = static_cast<uint32_t>(crc);
  Write(Packed(uint32_t{0x08074b50}, record.crc, record.bytes, record.bytes));
  records_.push_back(std::move(record));
  return absl::OkStatus();
}

std::string ZipWriter::Entry(const Record& record) const {
  const std::string fields =
      Packed(kZip64Field, uint16_t{24}, record.bytes, record.bytes, record.offset);
  return absl::StrCat(
      Packed(uint32_t{0x02014b50}, kZip64Version, kZip64Version, kChecksumAfter, uint16_t{0},
             kMidnight, kFirstDay, record.crc, kInZip64, kInZip64, Size16(record.name),
             Size16(fields), uint16_t{0}, uint16_t{0}, uint16_t{0}, uint32_t{0}, kInZip64),
      record.name, fields);
}

void ZipWriter::Finish() {
  const uint64_t begin = at_;
  for (const Record& record : records_) Write(Entry(record));
  const uint64_t end = at_;
  const uint64_t count = records_.size();
  constexpr uint64_t kBytesAfterSize = 44;
  Write(Packed(uint32_t{0x06064b50}, kBytesAfterSize, kZip64Version, kZip64Version, uint32_t{0},
               uint32_t{0}, count, count, end - begin, begin));
  Write(Packed(uint32_t{0x07064b50}, uint32_t{0}, end, uint32_t{1}));
  Write(Packed(uint32_t{0x06054b50}, uint16_t{0}, uint16_t{0}, uint16_t{0xffff}, uint16_t{0xffff},
               kInZip64, kInZip64, uint16_t{0}));
}

}  // namespace gradwire
