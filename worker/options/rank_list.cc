#include "worker/options/rank_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace gradwire {
namespace {

constexpr int kMaxRank = 65534;

absl::Status NotAList(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat("got '", text, "', expected ranks from 0 to ",
                                                 kMaxRank, ", such as 2, 0,1 or 0-2"));
}

// Whether `part` is "N" or "N-M".
bool ParseRange(absl::string_view part, int* first, int* last) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(part, absl::MaxSplits('-', 1));
  const bool single = ends.first.size() == part.size();
  return absl::SimpleAtoi(ends.first, first) &&
         absl::SimpleAtoi(single ? ends.first : ends.second, last) && *first >= 0 &&
         *first <= *last && *last <= kMaxRank;
}

}  // namespace

absl::StatusOr<std::vector<Rank>> ParseRanks(const std::string& text) {
  std::vector<Rank> ranks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int first = 0;
    int last = 0;
    if (!ParseRange(part, &first, &last)) return NotAList(text);
    for (int rank = first; rank <= last; ++rank) ranks.emplace_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  if (std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end()) return ranks;
  return absl::InvalidArgumentError(absl::StrCat("got '", text, "', expected each rank only once"));
}

std::string ToText(const std::vector<Rank>& ranks) {
  return absl::StrJoin(ranks, ",",
                       [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); });
}

OptionValue RankList(std::vector<Rank>* field) {
  OptionValue value;
  value.set = [field](const std::string& text) {
    absl::StatusOr<std::vector<Rank>> ranks = ParseRanks(text);
    if (ranks.ok()) *field = *std::move(ranks);
    return ranks.status();
  };
  return value;
}

}  // namespace gradwire
