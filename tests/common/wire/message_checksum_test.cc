#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/wire/chunk.h"
#include "common/wire/protocol.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

// With a map, and fields within fields.
v1::WorkerMessage SomeHello() {
  v1::WorkerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_incarnation(0x0123456789abcdef);
  for (const int rank : {3, 700}) hello->add_ranks(rank);
  hello->set_address("node3:4711");
  for (const char* name : {"lr", "model", "batch-size"}) (*hello->mutable_settings())[name] = "8";
  hello->set_protocol(5);
  return message;
}

TEST(TakeChecksum, AsItWasSent_IsIntactAndWithout) {
  v1::WorkerMessage sent = SomeHello();
  SetChecksum(0, &sent);
  v1::WorkerMessage received;
  ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  EXPECT_TRUE(TakeChecksum(0, &received).ok());
  EXPECT_EQ(received.checksum(), 0u);
  EXPECT_EQ(received.hello().settings().at("model"), "8");
}

TEST(TakeChecksum, AnyFlippedBit_IsNoticed) {
  v1::WorkerMessage sent = SomeHello();
  SetChecksum(0, &sent);
  const std::string bytes = sent.SerializeAsString();
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    v1::WorkerMessage received;
    if (!received.ParseFromString(flipped)) continue;
    EXPECT_EQ(TakeChecksum(0, &received).code(), absl::StatusCode::kDataLoss) << "bit " << bit;
  }
}

TEST(TakeChecksum, None_SaysWhatWasExpected) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(7);
  EXPECT_THAT(
      std::string(TakeChecksum(0, &message).message()),
      HasSubstr(
          "is corrupt, or an earlier one was lost: got checksum 0000000000000000, expected "));
}

TEST(SetChecksum, Twice_IsThatOfTheMessageAsItIsNow) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(7);
  SetChecksum(0, &message);
  const uint64_t first = message.checksum();
  message.mutable_sealed()->set_step(8);
  SetChecksum(0, &message);
  EXPECT_NE(message.checksum(), first);
  EXPECT_TRUE(TakeChecksum(0, &message).ok());
}

TEST(TakeChecksum, MessageBeforeItIsLost_IsNoticed) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(7);
  SetChecksum(1, &message);
  EXPECT_EQ(TakeChecksum(0, &message).code(), absl::StatusCode::kDataLoss);
}

// XXH3_64bits of 42 02 08 07 and its number: what others, in other languages, have to come to.
TEST(SetChecksum, Sealed_IsThatOfItsBytesAndNumber) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(7);
  const std::string bytes = message.SerializeAsString();
  EXPECT_EQ(bytes, std::string("\x42\x02\x08\x07"));
  SetChecksum(3, &message);
  const std::string whole = bytes + std::string("\3\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(message.checksum(),
            Checksum({reinterpret_cast<const uint8_t*>(whole.data()), whole.size()}));
}

}  // namespace
}  // namespace gradwire
