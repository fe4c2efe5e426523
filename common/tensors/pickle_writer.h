#ifndef GRADWIRE_COMMON_TENSORS_PICKLE_WRITER_H_
#define GRADWIRE_COMMON_TENSORS_PICKLE_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/tensors/stored_tensor.h"

namespace gradwire {

// Values as opcodes of Python's pickle, protocol 2. A whole pickle is PickleOf(value).

std::string PickledNone();
std::string PickledBool(bool value);
std::string PickledInteger(int64_t value);
std::string PickledReal(double value);
std::string PickledText(absl::string_view text);  // UTF-8
// `values` are pickled.
std::string PickledTuple(const std::vector<std::string>& values);
std::string PickledList(const std::vector<std::string>& values);
// Keys and values are pickled.
std::string PickledDict(const std::vector<std::pair<std::string, std::string>>& items);
// A tensor whose values are the record data/`storage` of the archive (torch_archive.h).
std::string PickledTensor(const StoredTensor& tensor, int storage);

std::string PickleOf(absl::string_view value);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TENSORS_PICKLE_WRITER_H_
