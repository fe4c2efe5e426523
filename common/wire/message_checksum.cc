#include "common/wire/message_checksum.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>

#include "absl/strings/str_format.h"
#include "common/wire/chunk.h"

namespace gradwire {
namespace {

uint64_t ChecksumOf(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);  // maps have an order
    message.SerializeToCodedStream(&out);
  }
  return Checksum({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

template <typename Message>
void Set(Message* message) {
  message->clear_checksum();
  message->set_checksum(ChecksumOf(*message));
}

template <typename Message>
absl::Status Take(Message* message) {
  const uint64_t said = message->checksum();
  message->clear_checksum();
  const uint64_t checksum = ChecksumOf(*message);
  if (said == checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "a message of the session came broken: got checksum %016x, expected %016x", said, checksum));
}

}  // namespace

void SetChecksum(v1::WorkerMessage* message) { Set(message); }
void SetChecksum(v1::CoordinatorMessage* message) { Set(message); }

absl::Status TakeChecksum(v1::WorkerMessage* message) { return Take(message); }
absl::Status TakeChecksum(v1::CoordinatorMessage* message) { return Take(message); }

}  // namespace gradwire
