// Prints a checksum of the bits that each kernel of the fold gives for fixed values, one a line.
// The lines are the same on every processor.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/fold/kernels.h"

namespace gradwire {
namespace {

constexpr size_t kCount = 4099;  // with a remainder for every width of vectors
constexpr int kTerms = 3;
constexpr float kLarge = 1e4f;  // three of them are finite in every type

// Any float32 that is no NaN, among them infinities and numbers too small to be normal. Large ones
// are positive: processors differ in the sign of the NaN that is the difference of two infinities.
std::vector<float> ValuesOf(uint32_t seed) {
  std::vector<float> values;
  while (values.size() < kCount) {
    seed = seed * 1664525 + 1013904223;
    float value = 0;
    std::memcpy(&value, &seed, sizeof(value));
    if (value < -kLarge) value = -value;
    if (value == value) values.push_back(value);
  }
  return values;
}

void Print(const char* set, const char* kernel, const void* data, size_t bytes) {
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < bytes; ++i) {
    sum = (sum ^ static_cast<const uint8_t*>(data)[i]) * 1099511628211u;
  }
  std::printf("%s %s %016" PRIx64 "\n", set, kernel, sum);
}

void PrintWire(const char* type, const WireKernels& kernels) {
  std::vector<std::vector<uint8_t>> terms;
  std::vector<const uint8_t*> pointers;
  for (uint32_t term = 0; term < kTerms; ++term) {
    terms.emplace_back(kCount * kernels.element_bytes);
    kernels.narrow(ValuesOf(term).data(), kCount, terms.back().data());
    pointers.push_back(terms.back().data());
  }
  Print(type, "narrow", terms[0].data(), terms[0].size());
  std::vector<uint8_t> out(terms[0].size());
  kernels.add_scaled(terms[0].data(), ValuesOf(7).data(), kCount, 1.0f / kTerms, out.data());
  Print(type, "add_scaled", out.data(), out.size());
  std::vector<float> wide(kCount);
  kernels.widen(terms[1].data(), kCount, wide.data());
  Print(type, "widen", wide.data(), kCount * sizeof(float));
  kernels.fold(pointers, kCount, 1.0f / kTerms, out.data());
  Print(type, "fold", out.data(), out.size());
}

void PrintOthers(const KernelSet& set) {
  std::vector<float> values = ValuesOf(1), residual(kCount);
  for (float& value : values) value = value > -1e4f && value < 1e4f ? value : 1;
  std::vector<int8_t> coded(kCount);
  const float scale = set.encode_int8(values.data(), kCount, residual.data(), coded.data());
  Print("int8", "encode", coded.data(), coded.size());
  Print("int8", "residual", residual.data(), kCount * sizeof(float));
  set.decode_int8(coded.data(), kCount, scale, residual.data());
  Print("int8", "decode", residual.data(), kCount * sizeof(float));
  const float dot = set.dot(values.data(), residual.data(), kCount);
  Print("float32", "dot", &dot, sizeof(dot));
  set.add_multiple(values.data(), kCount, 0.3f, residual.data());
  Print("float32", "add_multiple", residual.data(), kCount * sizeof(float));
}

}  // namespace
}  // namespace gradwire

int main() {
  const gradwire::KernelSet& set = gradwire::KernelsInUse();
  gradwire::PrintWire("float32", set.float32);
  gradwire::PrintWire("bfloat16", set.bfloat16);
  gradwire::PrintWire("float16", set.float16);
  gradwire::PrintOthers(set);
  return 0;
}
