#ifndef GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_
#define GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_

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
// new one, never a part. Links are followed; what is no regular file (a
// terminal, a pipe, /dev/null) is written to in place. Internal "cannot write …"
// leaves the old file as it was.
absl::Status ReplaceFile(absl::string_view path, absl::string_view text);

// Whether ReplaceFile could write there now, to be asked before a long run. An
// existing file is not changed, a missing one not made. InvalidArgument
// "cannot write …", as a wrong option is.
absl::Status CheckWritable(absl::string_view path);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_OUTPUT_FILE_H_
