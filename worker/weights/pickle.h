#ifndef GRADWIRE_WORKER_WEIGHTS_PICKLE_H_
#define GRADWIRE_WORKER_WEIGHTS_PICKLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The content of Python's pickle of a state dict. Nothing is called: a call is data, too.
struct PickleValue {
  enum class Kind {
    kNone,
    kInteger,     // number; of True and False too
    kText,        // text
    kGlobal,      // text: "module name"
    kList,        // items; of tuples too
    kDict,        // items: key, value, key, value, …
    kCall,        // items: what is called, then its arguments
    kPersistent,  // items: one, the id
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;
  std::string text;
  std::vector<PickleValue> items;
  int depth = 1;       // of nested values
  uint64_t count = 1;  // of all these

  // Whether it is a call of `global` ("module name"); collections.OrderedDict is a dict instead.
  bool IsCall(absl::string_view global) const;
};

// Reads a pickle of protocol 2 or 3, as torch.save writes it. Ignores an object's state (BUILD),
// such as the _metadata of a state dict. A copy from the memo does not get items that the dict got
// after it was stored. InvalidArgument names the opcode or the end of data, and the position; also
// for data that needs far more memory or stack than any state dict.
absl::StatusOr<PickleValue> ParsePickle(absl::string_view bytes);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_PICKLE_H_
