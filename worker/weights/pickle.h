#ifndef GRADWIRE_WORKER_WEIGHTS_PICKLE_H_
#define GRADWIRE_WORKER_WEIGHTS_PICKLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// What Python's pickle holds of a state dict. Nothing is called: a call is data, too.
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
  int depth = 1;       // of values within each other
  uint64_t count = 1;  // of all these

  // Whether it is a call of `global` ("module name"); collections.OrderedDict is a dict instead.
  bool IsCall(absl::string_view global) const;
};

// Reads a pickle of the protocols 2 and 3, as torch.save writes it. An object's state (BUILD), such
// as a state dict's _metadata, is passed over; what a dict gets after it was put into the memo is
// not seen by who takes it from there. InvalidArgument names the opcode or the end that was got,
// and where; so it does for what would take far more memory or stack than any state dict needs.
absl::StatusOr<PickleValue> ParsePickle(absl::string_view bytes);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_PICKLE_H_
