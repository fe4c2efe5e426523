#include "common/compress/compression.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/plain_text.h"

namespace gradwire {
namespace {

constexpr double kFirstDensity = 0.25;
constexpr uint64_t kMostRank = 1024;

// The argument after a name.
enum class Argument { kNone, kDensity, kRank };

struct Row {
  const char* name;
  v1::DType dtype;
  Argument argument;
  const char* help;
};

constexpr Row kRows[] = {
#define GRADWIRE_CODEC(name, dtype, coding, compressor, has_density, help) \
  {name, dtype, has_density ? Argument::kDensity : Argument::kNone, help},
#define GRADWIRE_FACTORS(name, help) {name, v1::DTYPE_FLOAT32, Argument::kRank, help},
#include "common/wire/codecs.inc"
};

std::string ShapeOf(Argument argument) {
  if (argument == Argument::kNone) return "";
  return argument == Argument::kDensity ? ":D" : ":R";
}

std::string RangeOf(Argument argument) {
  if (argument == Argument::kNone) return "";
  return argument == Argument::kDensity ? " with 0 < D <= 1"
                                        : absl::StrCat(" with R from 1 to ", kMostRank);
}

// `name`: the part before the colon.
absl::Status Unexpected(absl::string_view text, absl::string_view name) {
  std::string expected = kNoCompression;
  std::vector<std::string> names = {kNoCompression};
  for (const Row& row : kRows) {
    absl::StrAppend(&expected, ", ", row.name, ShapeOf(row.argument), RangeOf(row.argument));
    names.push_back(row.name);
  }
  const bool known = std::find(names.begin(), names.end(), name) != names.end();
  return absl::InvalidArgumentError(absl::StrCat("got '", text, "', expected ", expected,
                                                 known ? "" : DidYouMean(name, names, "")));
}

bool ReadDensity(absl::string_view text, Compression* compression) {
  compression->has_density = true;
  return absl::SimpleAtod(text, &compression->density) && compression->density > 0 &&
         compression->density <= 1;
}

bool ReadRank(absl::string_view text, Compression* compression) {
  return absl::SimpleAtoi(text, &compression->rank) && compression->rank > 0 &&
         compression->rank <= kMostRank;
}

}  // namespace

absl::StatusOr<Compression> ParseCompression(absl::string_view text) {
  Compression compression;
  if (text == kNoCompression) return compression;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& one) { return parts[0] == one.name; });
  if (row == std::end(kRows)) return Unexpected(text, parts[0]);
  if ((row->argument != Argument::kNone) != (parts.size() > 1)) return Unexpected(text, parts[0]);
  compression.dtype = row->dtype;
  if (row->argument == Argument::kNone) return compression;
  const auto read = row->argument == Argument::kDensity ? ReadDensity : ReadRank;
  if (!read(parts[1], &compression)) return Unexpected(text, parts[0]);
  return compression;
}

std::string DescribeCompressions() {
  std::string text = "compression of gradients; later steps correct its error:\n  none";
  for (const Row& row : kRows) {
    absl::StrAppend(&text, "\n  ", row.name, ShapeOf(row.argument), ": ", row.help);
  }
  return text;
}

double DensityAt(const Compression& compression, uint64_t step) {
  const double steps = static_cast<double>(compression.warmup_steps);
  const double done = static_cast<double>(step) + 1;
  if (done > steps || compression.density >= kFirstDensity) return compression.density;
  return kFirstDensity * std::pow(compression.density / kFirstDensity, done / (steps + 1));
}

}  // namespace gradwire
