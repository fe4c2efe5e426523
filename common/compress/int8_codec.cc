// Eight bits per element: a unit of 1,024 has a scale, its largest magnitude / 127, and each
// element is rounded to the nearest multiple of it. The rounding error is added to the next step's
// value (error feedback: Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019). A unit:
//
//   scale, float32 | an int8 for each element; the last unit of a bucket may be shorter
//
// A unit with NaN or infinity, or with a value that would round to infinity, has scale NaN: all its
// elements are NaN, and its residual is 0.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/compress/codec.h"
#include "common/fold/kernels.h"

namespace gradwire {
namespace {

constexpr uint64_t kUnit = 1024;
constexpr uint64_t kScaleBytes = sizeof(float);

uint64_t PayloadBytes(uint64_t elements) {
  return elements + (elements + kUnit - 1) / kUnit * kScaleBytes;
}

std::vector<uint8_t> EncodeUnits(absl::Span<const float> values, absl::Span<float> residual) {
  std::vector<uint8_t> payload(PayloadBytes(values.size()));
  uint8_t* out = payload.data();
  for (uint64_t i = 0; i < values.size(); i += kUnit) {
    const uint64_t count = std::min<uint64_t>(kUnit, values.size() - i);
    auto* elements = reinterpret_cast<int8_t*>(out + kScaleBytes);
    const float scale = KernelsInUse().encode_int8(&values[i], count, &residual[i], elements);
    std::memcpy(out, &scale, kScaleBytes);
    out += kScaleBytes + count;
  }
  return payload;
}

class Int8 : public Coding {
 public:
  uint64_t unit() const override { return kUnit; }
  double BytesPerElement(const Compression&, int) const override {
    return 1 + static_cast<double>(kScaleBytes) / kUnit;
  }
  bool has_residual() const override { return true; }

  absl::Status Check(const ByteSpans& payload, uint64_t elements) const override {
    const uint64_t bytes = TotalBytes(payload);
    if (bytes != PayloadBytes(elements)) {
      return absl::InvalidArgumentError(absl::StrCat("got ", bytes, " bytes, expected ",
                                                     PayloadBytes(elements), " for ", elements,
                                                     " elements in int8"));
    }
    std::vector<uint8_t> copy;
    const uint8_t* in = Contiguous(payload, &copy);
    for (uint64_t i = 0; i < elements; i += kUnit, in += kScaleBytes + kUnit) {
      float scale;
      std::memcpy(&scale, in, kScaleBytes);
      if (std::isnan(scale) || (scale >= 0 && std::isfinite(scale))) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("unit ", i / kUnit, ": got scale ", scale,
                       ", expected a finite one of 0 or more, or NaN"));
    }
    return absl::OkStatus();
  }

  void Decode(const ByteSpans& payload, absl::Span<float> out) const override {
    std::vector<uint8_t> copy;
    const uint8_t* in = Contiguous(payload, &copy);
    for (uint64_t i = 0; i < out.size(); i += kUnit) {
      const uint64_t count = std::min<uint64_t>(kUnit, out.size() - i);
      float scale;
      std::memcpy(&scale, in, kScaleBytes);
      KernelsInUse().decode_int8(reinterpret_cast<const int8_t*>(in + kScaleBytes), count, scale,
                                 &out[i]);
      in += kScaleBytes + count;
    }
  }

  std::vector<uint8_t> EncodeMean(absl::Span<const float> mean,
                                  absl::Span<float> residual) const override {
    return EncodeUnits(mean, residual);
  }
};

class Int8Terms : public Compressor {
 public:
  explicit Int8Terms(uint64_t elements) : residual_(elements) {}

  std::vector<uint8_t> Encode(Step, uint64_t first, absl::Span<const float> values) override {
    return EncodeUnits(values, absl::MakeSpan(residual_).subspan(first, values.size()));
  }
  std::vector<absl::Span<float>> state() override { return {absl::MakeSpan(residual_)}; }

 private:
  std::vector<float> residual_;
};

}  // namespace

std::unique_ptr<Coding> Int8Coding() { return std::make_unique<Int8>(); }

std::unique_ptr<Compressor> Int8Compressor(const Compression&, uint64_t elements) {
  return std::make_unique<Int8Terms>(elements);
}

}  // namespace gradwire
