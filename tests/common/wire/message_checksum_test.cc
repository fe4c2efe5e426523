#include "common/wire/message_checksum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/wire/chunk.h"

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
  SetChecksum(&sent);
  v1::WorkerMessage received;
  ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  EXPECT_TRUE(TakeChecksum(&received).ok());
  EXPECT_EQ(received.checksum(), 0u);
  EXPECT_EQ(received.hello().settings().at("model"), "8");
}

TEST(TakeChecksum, AnyFlippedBit_IsNoticed) {
  v1::WorkerMessage sent = SomeHello();
  SetChecksum(&sent);
  const std::string bytes = sent.SerializeAsString();
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    v1::WorkerMessage received;
    if (!received.ParseFromString(flipped)) continue;
    EXPECT_EQ(TakeChecksum(&received).code(), absl::StatusCode::kDataLoss) << "bit " << bit;
  }
}

TEST(TakeChecksum, None_SaysWhatWasExpected) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(7);
  EXPECT_THAT(std::string(TakeChecksum(&message).message()),
              HasSubstr("came broken: got checksum 0000000000000000, expected "));
}

TEST(SetChecksum, Twice_IsThatOfTheMessageAsItIsNow) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(7);
  SetChecksum(&message);
  const uint64_t first = message.checksum();
  message.mutable_sealed()->set_step(8);
  SetChecksum(&message);
  EXPECT_NE(message.checksum(), first);
  EXPECT_TRUE(TakeChecksum(&message).ok());
}

// XXH3_64bits of 42 02 08 07: what others, in other languages, have to come to.
TEST(SetChecksum, Sealed_IsThatOfItsBytes) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(7);
  const std::string bytes = message.SerializeAsString();
  EXPECT_EQ(bytes, std::string("\x42\x02\x08\x07"));
  SetChecksum(&message);
  EXPECT_EQ(message.checksum(),
            Checksum({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
}

}  // namespace
}  // namespace gradwire
