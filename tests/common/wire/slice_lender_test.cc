#include "common/wire/slice_lender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(SliceLender, Lend_SomeMemory_IsNotCopied) {
  SliceLender lender;
  const std::string text = "a text that is too long to be kept in a slice itself, by gRPC's rules";
  const grpc::Slice slice = lender.Lend(text.data(), text.size());
  EXPECT_EQ(static_cast<const void*>(slice.begin()), text.data());
  EXPECT_EQ(slice.size(), text.size());
}

TEST(SliceLender, Lend_NoBytes_IsEmptyAndNothingIsOut) {
  SliceLender lender;
  const grpc::Slice slice = lender.Lend(nullptr, 0);
  EXPECT_EQ(slice.size(), 0);
  EXPECT_TRUE(lender.Reclaim(absl::OkStatus()).ok());
}

TEST(SliceLender, Reclaim_NothingOut_GivesTheStatus) {
  SliceLender lender;
  EXPECT_EQ(lender.Reclaim(absl::AbortedError("why")), absl::AbortedError("why"));
}

TEST(SliceLender, Reclaim_CopiesOfASlice_WaitsForTheLast) {
  SliceLender lender;
  const std::vector<char> memory(1000);
  std::optional<grpc::Slice> first = lender.Lend(memory.data(), memory.size());
  std::optional<grpc::Slice> copy = *first;
  first.reset();
  std::promise<void> waits;
  std::future<absl::Status> reclaimed = std::async(std::launch::async, [&] {
    waits.set_value();
    return lender.Reclaim(absl::OkStatus());
  });
  waits.get_future().wait();
  EXPECT_EQ(reclaimed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  copy.reset();
  EXPECT_TRUE(reclaimed.get().ok());
}

TEST(SliceLender, LendToken_OfAThread_IsBackWithItsLastCopy) {
  SliceLender lender;
  std::shared_ptr<const void> token = lender.LendToken();
  std::thread user([mine = std::move(token)]() mutable { mine.reset(); });
  EXPECT_TRUE(lender.Reclaim(absl::OkStatus()).ok());
  user.join();
}

TEST(SliceLender, Reclaim_MemoryThatStaysOut_InternalSaysHowMuch) {
  SliceLender lender;
  const std::vector<char> memory(1000);
  const grpc::Slice slice = lender.Lend(memory.data(), memory.size());
  const std::shared_ptr<const void> token = lender.LendToken();
  const absl::Status status = lender.Reclaim(absl::OkStatus());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("still holds 2 borrowed pieces"));
}

TEST(SliceLender, Destructor_SlicesOut_MayComeBackLater) {
  const std::vector<char> memory(1000, 'x');
  std::optional<grpc::Slice> slice;
  std::shared_ptr<const void> token;
  {
    SliceLender lender;
    slice = lender.Lend(memory.data(), memory.size());
    token = lender.LendToken();
  }
  EXPECT_EQ(slice->begin()[999], 'x');
  slice.reset();
  token.reset();
}

TEST(SliceOwnedBy, Slice_KeepsItsOwnerAlive) {
  auto owner = std::make_shared<std::vector<char>>(1000, 'y');
  const std::weak_ptr<std::vector<char>> watched = owner;
  std::optional<grpc::Slice> slice = SliceOwnedBy(owner, owner->data() + 1, owner->size() - 1);
  owner.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(slice->begin()[998], 'y');
  slice.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(SliceOwnedBy, NoBytes_LetsTheOwnerGo) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  const grpc::Slice slice = SliceOwnedBy(std::move(owner), nullptr, 0);
  EXPECT_EQ(slice.size(), 0);
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace gradwire
