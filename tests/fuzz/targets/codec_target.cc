// The encodings of gradients: any payload is refused or decoded within its bounds, and what is
// encoded is taken, whatever the values.
//
//   input[0]  codec
//   input[1]  odd: the rest is a payload; even: the rest is values
//   input[2]  elements

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "common/compress/codec.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_reader.h"

namespace gradwire {
namespace {

constexpr int kSteps = 3;

Compression CompressionOf(uint64_t choice) {
  static constexpr const char* kNames[] = {"int8", "top-k:0.01", "top-k:0.3", "top-k:1"};
  Compression compression = *ParseCompression(kNames[choice / 2 % 4]);
  if (compression.has_density && choice % 2 == 1) compression.momentum = 0.9f;
  return compression;
}

// Some units, and one element more or less.
uint64_t ElementsOf(uint8_t choice, uint64_t unit) {
  return choice < 128 ? 1 + choice : choice % 4 * unit + choice % 3 + 1;
}

// Memory of exactly this size, so that a step too far is noticed.
using Floats = std::unique_ptr<float[]>;
Floats Decoded(const Coding& coding, const ByteSpans& payload, uint64_t count) {
  Floats out(new float[count]);
  coding.Decode(payload, {out.get(), count});
  return out;
}

std::string CheckPayloadOf(const Coding& coding, absl::Span<const uint8_t> payload, uint64_t count,
                           size_t cut) {
  const absl::Status checked = coding.Check({payload}, count);
  const ByteSpans cut_in_two = {payload.subspan(0, cut), payload.subspan(cut)};
  if (coding.Check(cut_in_two, count).ok() != checked.ok()) return "pieces change the verdict";
  if (!checked.ok()) return absl::IsInvalidArgument(checked) ? "" : "another error";
  const Floats whole = Decoded(coding, {payload}, count);
  const Floats pieces = Decoded(coding, cut_in_two, count);
  const bool is_same = std::memcmp(whole.get(), pieces.get(), count * sizeof(float)) == 0;
  return is_same ? "" : "pieces change what is decoded";
}

// `count` floats whose bytes are those of the input, over and over.
std::vector<float> ValuesOf(const std::string& bytes, uint64_t count) {
  std::vector<float> values(count);
  std::string all = bytes;
  while (!all.empty() && all.size() < count * sizeof(float)) all += all;
  std::memcpy(values.data(), all.data(), std::min(all.size(), count * sizeof(float)));
  return values;
}

std::string CheckEncoded(const Compression& compression, const std::vector<float>& values) {
  const Coding& coding = *CodingOf(compression.dtype);
  const auto compressor = MakeCompressor(compression, values.size());
  std::vector<float> residual(coding.has_residual() ? values.size() : 0);
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& payload : {compressor->Encode(Step(step), 0, values),
                                coding.EncodeMean(values, absl::MakeSpan(residual))}) {
      if (!coding.Check({payload}, values.size()).ok()) return "what was encoded is refused";
      const std::string violated =
          CheckPayloadOf(coding, payload, values.size(), payload.size() / 3);
      if (!violated.empty()) return violated;
    }
  }
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (!std::all_of(residual.begin(), residual.end(), is_finite)) return "a residual is not finite";
  return "";
}

}  // namespace

std::string ViolatedByCodec(absl::string_view bytes) {
  InputReader input(bytes);
  const Compression compression = CompressionOf(input.Byte());
  const Coding& coding = *CodingOf(compression.dtype);
  const bool is_payload = input.Flag();
  const uint64_t count = ElementsOf(input.Byte(), coding.unit());
  const std::string rest = input.Rest();
  if (!is_payload) return CheckEncoded(compression, ValuesOf(rest, count));
  // A copy of its own, so that a step too far is noticed.
  const std::vector<uint8_t> payload(rest.begin(), rest.end());
  return CheckPayloadOf(coding, payload, count, payload.size() / 2);
}

std::vector<std::string> CodecSeeds() {
  std::vector<std::string> seeds = {""};
  const std::string one = {0, 0, '\x80', '\x3f'}, nan = {0, 0, '\xc0', '\x7f'}, tiny = {1, 0, 0, 0},
                    largest = {'\xff', '\xff', '\x7f', '\x7f'};
  for (const char codec : {0, 2, 3, 4, 6}) {
    const Compression compression = CompressionOf(static_cast<uint64_t>(codec));
    for (const char elements : {'\0', '\x4', '\x82'}) {
      const std::string begin = {codec, 0, elements};
      for (const auto& values : {one, nan, tiny + one, largest, one + one + nan, std::string()}) {
        seeds.push_back(begin + values);
      }
    }
    const std::vector<float> values = {1, -2, 0, 3.5f, 0};
    const auto payload = MakeCompressor(compression, 5)->Encode(Step(0), 0, values);
    seeds.push_back(std::string({codec, 1, 4}) + std::string(payload.begin(), payload.end()));
  }
  // All elements: form 1.
  seeds.push_back(std::string({2, 1, 1}) + '\1' + one + one);
  return seeds;
}

}  // namespace gradwire
