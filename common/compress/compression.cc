#include "common/compress/compression.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gradwire {
namespace {

constexpr double kFirstDensity = 0.25;

struct Row {
  const char* name;
  v1::DType dtype;
  bool has_density;
  const char* help;
};

constexpr Row kRows[] = {
#define GRADWIRE_CODEC(name, dtype, coding, compressor, has_density, help) \
  {name, dtype, has_density, help},
#include "common/compress/codecs.inc"
#undef GRADWIRE_CODEC
};

absl::Status Unexpected(absl::string_view text) {
  std::string expected = kNoCompression;
  for (const Row& row : kRows) {
    absl::StrAppend(&expected, ", ", row.name, row.has_density ? ":D with 0 < D <= 1" : "");
  }
  return absl::InvalidArgumentError(absl::StrCat("got '", text, "', expected ", expected));
}

}  // namespace

absl::StatusOr<Compression> ParseCompression(absl::string_view text) {
  Compression compression;
  if (text == kNoCompression) return compression;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& one) { return parts[0] == one.name; });
  if (row == std::end(kRows) || row->has_density != (parts.size() > 1)) return Unexpected(text);
  compression.dtype = row->dtype;
  compression.has_density = row->has_density;
  if (!row->has_density) return compression;
  const bool is_number = absl::SimpleAtod(parts[1], &compression.density);
  const bool is_share = compression.density > 0 && compression.density <= 1;
  if (!is_number || !is_share) return Unexpected(text);
  return compression;
}

std::string DescribeCompressions() {
  std::string text =
      "fewer bytes for gradients, with an error that later steps make up for:\n  none";
  for (const Row& row : kRows) {
    absl::StrAppend(&text, "\n  ", row.name, row.has_density ? ":D" : "", ": ", row.help);
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
