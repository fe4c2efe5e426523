#include <gtest/gtest.h>

#include "bench/operations.h"

namespace gradwire {
namespace {

TEST(Setups, Peers_AreLinesOfTheTable) {
  for (const auto& setup : Setups()) {
    for (const std::string& peer : setup.peers) {
      EXPECT_EQ(SetupCalled(peer).kind, SetupKind::kPeer) << setup.name;
    }
  }
}

TEST(CompleteSetups, NothingChosen_GivesPeersOnlyIfWanted) {
  std::vector<std::string> own, all;
  ASSERT_TRUE(CompleteSetups(false, "fashion-mnist", &own).ok());
  ASSERT_TRUE(CompleteSetups(true, "cifar10", &all).ok());
  EXPECT_EQ(all, SetupNames());
  for (const std::string& name : own) EXPECT_NE(SetupCalled(name).kind, SetupKind::kPeer);
  EXPECT_LT(own.size(), all.size());
}

TEST(CompleteSetups, PeerWithoutPeers_IsRefused) {
  std::vector<std::string> chosen = {"gloo-ddp"};
  EXPECT_EQ(CompleteSetups(false, "cifar10", &chosen).message(),
            "--setups: gloo-ddp is PyTorch + Gloo and needs --peers");
}

TEST(CompleteSetups, DatasetThatPeersCannotRead_IsRefused) {
  std::vector<std::string> chosen = {"gloo-ddp"};
  EXPECT_TRUE(CompleteSetups(true, "synthetic", &chosen).ok());
  EXPECT_EQ(CompleteSetups(true, "mnist", &chosen).message(),
            "--dataset: got 'mnist', expected cifar10 or synthetic with --peers");
}

}  // namespace
}  // namespace gradwire
