#ifndef GRADWIRE_WORKER_OPTIONS_RANK_LIST_H_
#define GRADWIRE_WORKER_OPTIONS_RANK_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/options/option_values.h"

namespace gradwire {

// Returns the ranks in "2", "0,1", "0-2" or "0-1,5", in ascending order. InvalidArgument "got 'x',
// expected …" if the form is wrong, a rank is outside of 0 to 65534, or a rank appears twice.
absl::StatusOr<std::vector<Rank>> ParseRanks(const std::string& text);

// Returns the text that ParseRanks reads, "0,1,2".
std::string ToText(const std::vector<Rank>& ranks);

// An option whose value is such a list.
OptionValue RankList(std::vector<Rank>* field);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_RANK_LIST_H_
