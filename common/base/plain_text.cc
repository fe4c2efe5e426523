#include "common/base/plain_text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace gradwire {

namespace {

bool IsControl(unsigned char byte) { return byte < 0x20 || byte == 0x7f; }

// U+0080 to U+009F are encoded as C2 80 to C2 9F.
bool IsLateControl(absl::string_view text) {
  return text.size() >= 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
}

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string WithoutControls(absl::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool late = IsLateControl(text.substr(i));
    if (late) ++i;
    const auto byte = static_cast<unsigned char>(text[i]);
    if (late || IsControl(byte)) {
      absl::StrAppendFormat(&plain, "\\x%02x", byte);
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

std::string Shortened(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && ContinuesCharacter(text[most])) --most;
  return absl::StrCat(text.substr(0, most), "…");
}

namespace {

std::string Normalise(absl::string_view word) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(word, {{"-", ""}, {"_", ""}}));
}

// Optimal string alignment distance, row by row.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

bool OneBeginsTheOther(const std::string& a, const std::string& b) {
  return std::min(a.size(), b.size()) >= 2 && (absl::StartsWith(a, b) || absl::StartsWith(b, a));
}

}  // namespace

std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = Normalise(word);
  const size_t limit = std::max<size_t>(wanted.size() / 3, 1);
  std::string nearest;
  std::string beginning;
  size_t best = limit + 1;
  for (const std::string& candidate : candidates) {
    const std::string normalised = Normalise(candidate);
    const size_t distance = Distance(wanted, normalised);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
    if (beginning.empty() && OneBeginsTheOther(wanted, normalised)) beginning = candidate;
  }
  return nearest.empty() ? beginning : nearest;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates,
                       absl::string_view prefix) {
  const std::string nearest = Nearest(word, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", prefix, nearest, "?");
}

std::string ExpectedOneOf(const std::vector<std::string>& names, absl::string_view word) {
  return absl::StrCat("expected ", names.size() > 1 ? "one of " : "", absl::StrJoin(names, ", "),
                      DidYouMean(word, names, ""));
}

}  // namespace gradwire
