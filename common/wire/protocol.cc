#include "common/wire/protocol.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>

#include "absl/strings/str_format.h"
#include "common/wire/chunk.h"

namespace gradwire {
namespace {

uint64_t ChecksumOf(uint64_t number, const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);  // with a fixed order of map entries
    message.SerializeToCodedStream(&out);
    out.WriteLittleEndian64(number);
  }
  return Checksum({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

template <typename Message>
void Set(uint64_t number, Message* message) {
  message->clear_checksum();
  message->set_checksum(ChecksumOf(number, *message));
}

template <typename Message>
absl::Status Take(uint64_t number, Message* message) {
  const uint64_t said = message->checksum();
  message->clear_checksum();
  const uint64_t checksum = ChecksumOf(number, *message);
  if (said == checksum) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("message %d of the session is corrupt, or an earlier one was lost: got "
                      "checksum %016x, expected %016x",
                      number, said, checksum));
}

}  // namespace

void SetChecksum(uint64_t number, v1::WorkerMessage* message) { Set(number, message); }
void SetChecksum(uint64_t number, v1::CoordinatorMessage* message) { Set(number, message); }

absl::Status TakeChecksum(uint64_t number, v1::WorkerMessage* message) {
  return Take(number, message);
}
absl::Status TakeChecksum(uint64_t number, v1::CoordinatorMessage* message) {
  return Take(number, message);
}

}  // namespace gradwire
