#include "common/state/checkpoint_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/plain_text.h"
#include "common/base/status_util.h"
#include "common/state/finite.h"
#include "common/state/run_dir.h"
#include "common/tensors/safetensors_header.h"
#include "common/wire/chunk.h"

namespace gradwire {
namespace {

constexpr int64_t kMostManifestBytes = 64 << 20;
constexpr int64_t kMostHeaderBytes = 64 << 20;

std::string Reason(int error) { return std::strerror(error); }

// A file that is open for reading.
struct OpenFile {
  UniqueFd fd;
  int64_t bytes = 0;
};

absl::StatusOr<OpenFile> OpenToRead(const std::string& path) {
  OpenFile file;
  // Without O_NONBLOCK, a pipe in place of the file would block.
  file.fd.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (file.fd.get() < 0 || fstat(file.fd.get(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot read it: ", Reason(errno)));
  }
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError("cannot read it: not a regular file");
  file.bytes = info.st_size;
  return file;
}

// Reads `bytes` bytes from `offset` on.
absl::Status ReadAt(const UniqueFd& fd, int64_t offset, absl::Span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = pread(fd.get(), out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::InvalidArgumentError(absl::StrCat("cannot read it: ", Reason(errno)));
    if (got == 0) return Unexpected("file", absl::StrCat("its end at byte ", offset), "more bytes");
    out.remove_prefix(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(const UniqueFd& fd, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  absl::Status status =
      ReadAt(fd, 0, {reinterpret_cast<uint8_t*>(&text[0]), static_cast<size_t>(text.size())});
  if (!status.ok()) return status;
  return text;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const absl::StatusOr<OpenFile> file = OpenToRead(absl::StrCat(folder, "/", kManifestName));
  if (!file.ok()) return file.status();
  if (file->bytes > kMostManifestBytes) {
    return Unexpected("file", absl::StrCat(file->bytes, " bytes"),
                      absl::StrCat("at most ", kMostManifestBytes));
  }
  const absl::StatusOr<std::string> text = ReadText(file->fd, file->bytes);
  if (!text.ok()) return text.status();
  return ParseManifest(*text);
}

// Reads the header's bytes and checks them.
absl::StatusOr<std::string> ReadHeader(const OpenFile& file, const ManifestFile& expected) {
  if (file.bytes != expected.bytes) {
    return Unexpected("file", absl::StrCat(file.bytes, " bytes"),
                      absl::StrCat(expected.bytes, " bytes"));
  }
  if (file.bytes < kSafetensorsLengthBytes) return Unexpected("file", "no header", "one");
  uint64_t json_bytes = 0;
  absl::Status status =
      ReadAt(file.fd, 0, {reinterpret_cast<uint8_t*>(&json_bytes), sizeof(json_bytes)});
  if (!status.ok()) return status;
  if (json_bytes > static_cast<uint64_t>(kMostHeaderBytes) ||
      static_cast<int64_t>(json_bytes) > file.bytes - kSafetensorsLengthBytes) {
    return Unexpected("header", absl::StrCat("a length of ", json_bytes), "one within the file");
  }
  absl::StatusOr<std::string> header =
      ReadText(file.fd, kSafetensorsLengthBytes + static_cast<int64_t>(json_bytes));
  if (header.ok() && Checksum(*header) != expected.header_hash) {
    return Unexpected("header", "other bytes", "those that were written; it is damaged");
  }
  return header;
}

// Adds a file's tensors to its section, which is the last one or new.
absl::Status AddTensors(const std::string& header, const ManifestFile& file,
                        std::vector<StateSection>* sections) {
  absl::StatusOr<SafetensorsHeader> parsed = ParseSafetensorsHeader(header, file.bytes);
  if (!parsed.ok()) return parsed.status();
  if (sections->empty() || sections->back().name != file.section) {
    sections->push_back({file.section, {}});
  }
  for (PlacedTensor& tensor : parsed->tensors) {
    sections->back().tensors.push_back(std::move(tensor.spec));
  }
  return absl::OkStatus();
}

// Checks that the files are those of the plan.
absl::Status CheckPlan(const StatePlan& plan, const Manifest& manifest) {
  bool same = plan.files().size() == manifest.files.size();
  std::vector<size_t> parts(plan.files().size());
  for (const StatePart& part : plan.parts()) ++parts[part.file];
  for (size_t i = 0; same && i < plan.files().size(); ++i) {
    const ManifestFile& file = manifest.files[i];
    same = file.name == plan.files()[i].name && file.parts.size() == parts[i] &&
           file.header_hash == Checksum(plan.files()[i].header);
  }
  if (same) return absl::OkStatus();
  return Unexpected(kManifestName, "other files or parts",
                    absl::StrCat("those of ", plan.files().size(), " files with these tensors"));
}

absl::Status CheckDigests(const StatePlan& plan, const std::vector<uint64_t>& hashes,
                          const Manifest& manifest) {
  std::map<std::string, uint64_t> digests;
  for (size_t i = 0; i < plan.sections().size(); ++i) {
    digests[plan.sections()[i].name] = plan.DigestOf(static_cast<int>(i), hashes);
  }
  if (digests == manifest.digests) return absl::OkStatus();
  return Unexpected(kManifestName, "other digests", "those of its files");
}

absl::Status CheckName(const std::string& folder, const Manifest& manifest) {
  const std::string name = std::filesystem::path(folder).filename();
  if (name == CheckpointName(manifest.step)) return absl::OkStatus();
  return Unexpected(kManifestName, absl::StrCat("step ", manifest.step),
                    absl::StrCat("that of the folder ", name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const std::string& folder) {
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader(folder));
  absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) {
    return Annotate(manifest.status(), absl::StrCat(folder, "/", kManifestName));
  }
  absl::Status status = CheckName(folder, *manifest);
  reader->manifest_ = *std::move(manifest);
  if (status.ok()) status = reader->OpenFiles();
  if (!status.ok()) return Annotate(status, folder);
  return reader;
}

absl::Status CheckpointReader::OpenFiles() {
  std::vector<StateSection> sections;
  for (const ManifestFile& file : manifest_.files) {
    absl::Status status = OpenOne(file, &sections);
    if (!status.ok()) return Annotate(status, WithoutControls(file.name));
  }
  absl::StatusOr<StatePlan> plan =
      StatePlan::Make(std::move(sections), manifest_.part_bytes, manifest_.file_bytes);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  absl::Status status = CheckPlan(plan_, manifest_);
  return status.ok() ? CheckDigests(plan_, hashes_, manifest_) : status;
}

absl::Status CheckpointReader::OpenOne(const ManifestFile& file,
                                       std::vector<StateSection>* sections) {
  absl::StatusOr<OpenFile> opened = OpenToRead(absl::StrCat(folder_, "/", file.name));
  if (!opened.ok()) return absl::InvalidArgumentError(opened.status().message());
  const absl::StatusOr<std::string> header = ReadHeader(*opened, file);
  if (!header.ok()) return header.status();
  files_.push_back(std::move(opened->fd));
  hashes_.insert(hashes_.end(), file.parts.begin(), file.parts.end());
  return AddTensors(*header, file, sections);
}

absl::Status CheckpointReader::Read(int part, absl::Span<uint8_t> out) const {
  const StatePart& place = plan_.parts()[part];
  const StateFile& file = plan_.files()[place.file];
  const std::string what = absl::StrCat(folder_, "/", file.name);
  absl::Status status =
      ReadAt(files_[place.file], static_cast<int64_t>(file.header.size()) + place.begin, out);
  if (!status.ok()) return Annotate(status, what);
  if (Checksum(out) == hashes_[part]) return absl::OkStatus();
  const StateRange range = plan_.RangesOf(part).front();
  const std::string& key = plan_.sections()[range.section].tensors[range.tensor].key;
  return Unexpected(absl::StrCat(what, ", '", WithoutControls(key), "' and after"), "other values",
                    "those that were written; the file is damaged");
}

absl::Status CheckpointReader::Verify() const {
  std::vector<uint8_t> buffer;
  for (size_t i = 0; i < plan_.parts().size(); ++i) {
    const auto part = static_cast<int>(i);
    buffer.resize(static_cast<size_t>(plan_.parts()[i].bytes));
    absl::Status status = Read(part, absl::MakeSpan(buffer));
    if (!status.ok()) return status;
    status =
        CheckFinite(plan_, part, {reinterpret_cast<const char*>(buffer.data()), buffer.size()});
    if (!status.ok()) return Annotate(status, folder_);
  }
  return absl::OkStatus();
}

}  // namespace gradwire
