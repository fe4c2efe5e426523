#ifndef GRADWIRE_WORKER_OPTIONS_RANK_LIST_H_
#define GRADWIRE_WORKER_OPTIONS_RANK_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/options/option_values.h"

namespace gradwire {

// The ranks that "2", "0,1", "0-2" or "0-1,5" name, ascending. InvalidArgument "got 'x',
// expected …" if it is not of that form, a rank is not from 0 to 65534, or one is named twice.
absl::StatusOr<std::vector<Rank>> ParseRanks(const std::string& text);

// "0,1,2": what ParseRanks takes.
std::string ToText(const std::vector<Rank>& ranks);

// An option that takes such a list.
OptionValue RankList(std::vector<Rank>* field);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_RANK_LIST_H_
