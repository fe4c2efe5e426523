#include "coordinator/pages/web_assets.h"

#include <cstddef>

namespace gradwire {
namespace {

struct WebFile {
  absl::string_view name;
  WebAsset asset;
};

// Of a string literal, without the NUL at its end.
template <size_t N>
constexpr absl::string_view Text(const char (&literal)[N]) {
  return absl::string_view(literal, N - 1);
}

// A line for each file of coordinator/web and of the chart library; made by
// coordinator/web/embed.cmake when the program is built.
constexpr WebFile kFiles[] = {
#include "coordinator/web_files.inc"
};

}  // namespace

const WebAsset* FindWebAsset(absl::string_view name) {
  const absl::string_view wanted = name.empty() ? "index.html" : name;
  for (const WebFile& file : kFiles) {
    if (file.name == wanted) return &file.asset;
  }
  return nullptr;
}

}  // namespace gradwire
