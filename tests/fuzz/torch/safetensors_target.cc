// A file of weights.
//
//   input[0]  odd: the rest is the file; even: the rest is its header
//   input[1]  bytes of values behind a header

#include <cstring>

#include "absl/strings/string_view.h"
#include "tests/fuzz/input_reader.h"
#include "worker/weights/safetensors.h"

namespace gradwire {

std::string ViolatedBySafetensors(absl::string_view bytes) {
  InputReader input(bytes);
  const bool is_file = input.Flag();
  const size_t values = input.Byte();
  const std::string rest = input.Rest();
  uint64_t length = rest.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file = is_file ? rest : file + rest + std::string(values, '\x3f');
  const absl::StatusOr<Weights> weights = ParseSafetensors(file);
  if (!weights.ok()) {
    const bool is_fit = absl::IsInvalidArgument(weights.status());
    return is_fit && !weights.status().message().empty() ? "" : "got another error";
  }
  size_t used = 0;
  for (const auto& [key, tensor] : *weights) used += tensor.nbytes();
  std::memcpy(&length, file.data(), sizeof(length));
  const bool is_in_file = used + sizeof(length) + length <= file.size();
  return is_in_file ? "" : "tensors hold more than the file's values";
}

std::vector<std::string> SafetensorsSeeds() {
  const std::string header(1, '\0'), file(1, '\1');
  const std::string one = R"({"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";
  const auto with = [&](const std::string& more) { return header + '\x18' + one + more; };
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& at) {
    return R"(,"b":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + at + "}}";
  };
  return {"",
          with("}"),
          with(R"(,"__metadata__":{"format":"pt"}}   )"),
          with(tensor(R"("I64")", "[]", "[24,32]")),
          with(tensor(R"("F32")", "[2,3]", "[0,24]")),
          with(tensor(R"("BF16")", "[0,4611686018427387904,4611686018427387904]", "[0,0]")),
          with(tensor(R"("U8")", "[4611686018427387904,4,4]", "[0,0]")),
          with(tensor(R"("U8")", "[-1]", "[24,18446744073709551615]")),
          with(tensor("3", "{}", "[1]")),
          with(tensor(R"("F64")", "[1.5,null]", R"(["a"])")),
          with(R"(,"b":)" + std::string(3000, '[') + std::string(3000, ']') + "}"),
          with(",\"\xff\":1}"),
          file + '\0' + std::string(8, '\xff') + one,
          file + '\0' + "1234567"};
}

}  // namespace gradwire
