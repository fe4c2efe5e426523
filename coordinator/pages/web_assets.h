#ifndef GRADWIRE_COORDINATOR_PAGES_WEB_ASSETS_H_
#define GRADWIRE_COORDINATOR_PAGES_WEB_ASSETS_H_

#include "absl/strings/string_view.h"

namespace gradwire {

// A file of the live page. It is part of the program, and lives as long.
struct WebAsset {
  absl::string_view content_type;  // as in HTTP's Content-Type
  absl::string_view body;
};

// The file that is served as /assets/`name`, such as "page.js"; "" is the page
// itself, which is served as /. nullptr if there is none of that name.
// Thread-safe.
const WebAsset* FindWebAsset(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_PAGES_WEB_ASSETS_H_
