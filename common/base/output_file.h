#ifndef GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_
#define GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"

namespace gradwire {

// Returns "cannot write PATH: no such file or directory" for an errno.
std::string CannotWrite(absl::string_view path, int error);

// Returns `path` with each "{rank}" replaced by the rank, so that ranks on a shared file system
// write separate files.
std::string PathOfRank(absl::string_view path, Rank rank);

// Returns N for a path that names this process's open descriptor N: /dev/stdout, /dev/stderr,
// /dev/fd/N, /proc/self/fd/N. Output goes on there, even if it is a regular file.
absl::optional<int> OwnDescriptor(absl::string_view path);

// Opens a file as std::fopen does, closed on exec; an own descriptor is never emptied. Null with
// errno if it cannot be opened.
std::FILE* OpenOutput(absl::string_view path, const char* mode);

// Replaces the file by `text` atomically: a reader sees the old file or the new one, never a part.
// If it returns OK, the file and its name are on the disk and survive a power failure. Follows
// links; writes in place to a target that is not a regular file (a terminal, a pipe, /dev/null), or
// is an own descriptor. Returns Internal "cannot write …"; the old file is then unchanged unless
// the disk failed after the rename.
absl::Status ReplaceFile(absl::string_view path, absl::string_view text);

// Takes the next piece of a file's content. After an error it drops the piece.
using WritePiece = std::function<void(absl::string_view piece)>;
// Passes all pieces of a file's content, in order. Called once. After an error, the file is not
// replaced.
using WriteContent = std::function<absl::Status(const WritePiece& write)>;

// The same for content that is not in memory as a whole. A piece may be freed after it is written.
// Also returns the error of `content`; a target that is not a regular file then has some pieces.
absl::Status ReplaceFile(absl::string_view path, const WriteContent& content);

// Tells whether a file was written or replaced between two calls of MarkOf. It compares no time
// with a clock, because that of a file server may differ.
struct FileMark {
  uint64_t file = 0;  // its number in the file system
  int64_t bytes = 0;
  absl::Time written;
};
bool operator==(const FileMark& a, const FileMark& b);

// Returns nothing for an own descriptor, and for a path that is not a regular file.
absl::optional<FileMark> MarkOf(const std::string& path);

// Checks whether ReplaceFile could write there now; for use before a long run. Does not change or
// create a file. InvalidArgument "cannot write …", as for a wrong option.
absl::Status CheckWritable(absl::string_view path);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_
