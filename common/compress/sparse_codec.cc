// The largest elements, with their places. The others accumulate until they are sent (Lin et al.,
// Deep Gradient Compression, ICLR 2018: momentum correction and factor masking). For each unit of
// 4,096 elements, the density determines how many are sent, at least one. A payload:
//
//   0, uint8 | per unit: count, uint16 | places in the unit, uint16 | values, float32
//   1, uint8 | all elements, float32, if that is shorter
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "common/compress/codec.h"

namespace gradwire {
namespace {

constexpr uint64_t kPlaces = 4096;
constexpr uint64_t kCountBytes = sizeof(uint16_t);
constexpr uint64_t kEntryBytes = sizeof(uint16_t) + sizeof(float);
enum Form : uint8_t { kSparse = 0, kDense = 1 };

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("sparse payload: ", what));
}

template <typename T>
T ReadAt(const uint8_t* in) {
  T value;
  std::memcpy(&value, in, sizeof(value));
  return value;
}

// The entries of one unit in a payload.
class UnitView {
 public:
  explicit UnitView(const uint8_t* in) : in_(in) {}
  uint64_t count() const { return ReadAt<uint16_t>(in_); }
  uint64_t bytes() const { return kCountBytes + count() * kEntryBytes; }
  uint16_t place(uint64_t i) const {
    return ReadAt<uint16_t>(in_ + kCountBytes + i * sizeof(uint16_t));
  }
  float value(uint64_t i) const {
    return ReadAt<float>(in_ + kCountBytes + count() * sizeof(uint16_t) + i * sizeof(float));
  }

 private:
  const uint8_t* const in_;
};

// Appends the elements of one unit at `places`, which must be ascending.
void AppendUnit(absl::Span<const float> unit, absl::Span<const uint16_t> places,
                std::vector<uint8_t>* payload) {
  const auto append = [payload](const auto& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    payload->insert(payload->end(), bytes, bytes + sizeof(value));
  };
  append(static_cast<uint16_t>(places.size()));
  for (const uint16_t place : places) append(place);
  for (const uint16_t place : places) append(unit[place]);
}

std::vector<uint8_t> DensePayload(absl::Span<const float> values) {
  std::vector<uint8_t> payload(1 + values.size() * sizeof(float));
  payload[0] = kDense;
  std::memcpy(&payload[1], values.data(), values.size() * sizeof(float));
  return payload;
}

class Sparse : public Coding {
 public:
  uint64_t unit() const override { return kPlaces; }
  // In the worst case, no two ranks send the same elements.
  double BytesPerElement(const Compression& compression, int world_size) const override {
    const double term = compression.density * kEntryBytes;
    return (term + std::min(world_size * term, static_cast<double>(sizeof(float)))) / 2;
  }
  bool has_residual() const override { return false; }

  absl::Status Check(const ByteSpans& payload, uint64_t elements) const override {
    const uint64_t bytes = TotalBytes(payload);
    if (bytes == 0) return Malformed("got 0 bytes, expected at least one");
    std::vector<uint8_t> copy;
    const uint8_t* in = Contiguous(payload, &copy);
    if (*in == kSparse) return CheckUnits(in + 1, in + bytes, elements);
    if (*in != kDense) return Malformed(absl::StrCat("got form ", *in, ", expected 0 or 1"));
    const uint64_t expected = 1 + elements * sizeof(float);
    if (bytes == expected) return absl::OkStatus();
    return Malformed(absl::StrCat("got ", bytes, " bytes, expected ", expected, " for ", elements,
                                  " elements, all of them"));
  }

  void Decode(const ByteSpans& payload, absl::Span<float> out) const override {
    std::vector<uint8_t> copy;
    const uint8_t* in = Contiguous(payload, &copy);
    if (*in++ == kDense) {
      std::memcpy(out.data(), in, out.size() * sizeof(float));
      return;
    }
    std::fill(out.begin(), out.end(), 0.0f);
    for (uint64_t start = 0; start < out.size(); start += kPlaces) {
      const UnitView unit(in);
      for (uint64_t i = 0; i < unit.count(); ++i) out[start + unit.place(i)] = unit.value(i);
      in += unit.bytes();
    }
  }

  std::vector<uint8_t> EncodeMean(absl::Span<const float> mean, absl::Span<float>) const override {
    std::vector<uint8_t> payload = {kSparse};
    std::vector<uint16_t> places;
    for (uint64_t start = 0; start < mean.size(); start += kPlaces) {
      const absl::Span<const float> unit = mean.subspan(start, kPlaces);
      places.clear();
      for (uint64_t i = 0; i < unit.size(); ++i) {
        if (unit[i] != 0) places.push_back(static_cast<uint16_t>(i));
      }
      AppendUnit(unit, places, &payload);
    }
    return payload.size() > mean.size() * sizeof(float) ? DensePayload(mean) : payload;
  }

 private:
  static absl::Status CheckUnits(const uint8_t* in, const uint8_t* end, uint64_t elements) {
    for (uint64_t start = 0; start < elements; start += kPlaces) {
      const uint64_t left = static_cast<uint64_t>(end - in);
      if (left < kCountBytes || left < UnitView(in).bytes()) {
        return Malformed(absl::StrCat("payload ends within unit ", start / kPlaces));
      }
      const UnitView unit(in);
      int64_t least = 0;
      for (uint64_t i = 0; i < unit.count(); ++i) {
        const int64_t place = unit.place(i);
        if (place < least || static_cast<uint64_t>(place) >= std::min(kPlaces, elements - start)) {
          return Malformed(absl::StrCat("unit ", start / kPlaces, ": got place ", place,
                                        ", expected ascending ones below ",
                                        std::min(kPlaces, elements - start)));
        }
        least = place + 1;
      }
      in += unit.bytes();
    }
    if (in == end) return absl::OkStatus();
    return Malformed(absl::StrCat("got ", end - in, " bytes after the last unit, expected none"));
  }
};

class TopKTerms : public Compressor {
 public:
  TopKTerms(const Compression& compression, uint64_t elements)
      : compression_(compression),
        velocity_(compression.momentum > 0 ? elements : 0),
        unsent_(elements) {}

  std::vector<uint8_t> Encode(Step step, uint64_t first, absl::Span<const float> values) override {
    std::vector<uint8_t> payload = {kSparse};
    const double density = DensityAt(compression_, step.value());
    for (uint64_t start = 0; start < values.size(); start += kPlaces) {
      const absl::Span<const float> unit = values.subspan(start, kPlaces);
      Accumulate(first + start, unit);
      const auto sent = absl::MakeSpan(unsent_).subspan(first + start, unit.size());
      const std::vector<uint16_t> places = Largest(sent, density);
      AppendUnit(sent, places, &payload);
      Forget(first + start, places);
    }
    return payload;
  }

  std::vector<absl::Span<float>> state() override {
    if (velocity_.empty()) return {absl::MakeSpan(unsent_)};
    return {absl::MakeSpan(unsent_), absl::MakeSpan(velocity_)};
  }

 private:
  void Accumulate(uint64_t first, absl::Span<const float> gradient) {
    float* const unsent = unsent_.data() + first;
    if (velocity_.empty()) {
      for (size_t i = 0; i < gradient.size(); ++i) unsent[i] += gradient[i];
      return;
    }
    float* const velocity = velocity_.data() + first;
    for (size_t i = 0; i < gradient.size(); ++i) {
      velocity[i] = compression_.momentum * velocity[i] + gradient[i];
      unsent[i] += velocity[i];
    }
  }

  void Forget(uint64_t first, const std::vector<uint16_t>& places) {
    for (const uint16_t place : places) {
      unsent_[first + place] = 0;
      if (!velocity_.empty()) velocity_[first + place] = 0;
    }
  }

  // Returns a magnitude's bits, which sort like the magnitude; NaN is above infinity.
  static uint32_t Magnitude(float value) { return absl::bit_cast<uint32_t>(value) & 0x7fffffff; }

  // Returns the places of the largest elements, ascending; of equal ones the first, of zeros none.
  static std::vector<uint16_t> Largest(absl::Span<const float> values, double density) {
    const auto wanted =
        static_cast<size_t>(std::ceil(density * static_cast<double>(values.size())));
    std::vector<uint32_t> magnitudes(values.size());
    std::transform(values.begin(), values.end(), magnitudes.begin(), Magnitude);
    std::vector<uint32_t> sorted = magnitudes;
    std::nth_element(sorted.begin(), sorted.begin() + (wanted - 1), sorted.end(),
                     std::greater<uint32_t>());
    const uint32_t least = sorted[wanted - 1];
    size_t equal = wanted - std::count_if(sorted.begin(), sorted.begin() + wanted,
                                          [least](uint32_t one) { return one > least; });
    std::vector<uint16_t> places;
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      const bool is_sent = magnitudes[i] > least || (magnitudes[i] == least && equal > 0);
      if (magnitudes[i] == least && equal > 0) --equal;
      if (is_sent && magnitudes[i] > 0) places.push_back(static_cast<uint16_t>(i));
    }
    return places;
  }

  const Compression compression_;
  std::vector<float> velocity_;  // empty without momentum
  std::vector<float> unsent_;
};

}  // namespace

std::unique_ptr<Coding> SparseCoding() { return std::make_unique<Sparse>(); }

std::unique_ptr<Compressor> TopKCompressor(const Compression& compression, uint64_t elements) {
  return std::make_unique<TopKTerms>(compression, elements);
}

}  // namespace gradwire
