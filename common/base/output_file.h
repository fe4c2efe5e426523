#ifndef GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_
#define GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"

namespace gradwire {

// "cannot write PATH: no such file or directory", for an errno.
std::string CannotWrite(absl::string_view path, int error);

// `path` with the rank in place of each "{rank}", so that ranks that share a
// file system write files of their own.
std::string PathOfRank(absl::string_view path, Rank rank);

// Replaces the file by `text` in one move: a reader sees the old file or the
// new one, never a part. When it returns OK, the file and its name are on the
// disk, and a power failure does not undo them. Follows links; writes in place
// to anything that is no regular file (a terminal, a pipe, /dev/null).
// Returns Internal "cannot write …"; unless the disk failed after the move, the
// old file is then as it was.
absl::Status ReplaceFile(absl::string_view path, absl::string_view text);

// Takes the next piece of a file's content. After an error it drops the piece.
using WritePiece = std::function<void(absl::string_view piece)>;
// Gives all pieces of a file's content, in their order. Called once.
using WriteContent = std::function<void(const WritePiece& write)>;

// The same, for content that is not in memory as a whole. A piece may be freed
// as soon as it is written.
absl::Status ReplaceFile(absl::string_view path, const WriteContent& content);

// Whether ReplaceFile could write there now, to be asked before a long run. An
// existing file is not changed, a missing one not made. InvalidArgument
// "cannot write …", as a wrong option is.
absl::Status CheckWritable(absl::string_view path);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_
