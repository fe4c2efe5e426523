#include <gtest/gtest.h>

#include "common/options/launch_environment.h"

namespace gradwire {
namespace {

TEST(FirstSlurmHost, PlainList_GivesTheFirst) { EXPECT_EQ(*FirstSlurmHost("a1,b2"), "a1"); }

TEST(FirstSlurmHost, OneHost_GivesIt) { EXPECT_EQ(*FirstSlurmHost("login1"), "login1"); }

TEST(FirstSlurmHost, Range_KeepsLeadingZeros) {
  EXPECT_EQ(*FirstSlurmHost("node[007-019,22],x"), "node007");
}

TEST(FirstSlurmHost, ListInBrackets_GivesTheFirst) {
  EXPECT_EQ(*FirstSlurmHost("node[3,5-9]"), "node3");
}

TEST(FirstSlurmHost, TwoBracketsAndSuffix_AreJoined) {
  EXPECT_EQ(*FirstSlurmHost("rack[1-2]n[04-05].lan,z"), "rack1n04.lan");
}

TEST(FirstSlurmHost, OpenBracket_IsRefused) {
  EXPECT_EQ(FirstSlurmHost("node[1-2").status().message(), "no closing bracket in 'node[1-2'");
}

TEST(FirstSlurmHost, Empty_IsRefused) {
  EXPECT_EQ(FirstSlurmHost("").status().message(), "the node list is empty");
}

TEST(SlurmTasksOnNode, Repeated_CountsForEachNode) {
  EXPECT_EQ(*SlurmTasksOnNode("2(x3),1", 0), 2);
  EXPECT_EQ(*SlurmTasksOnNode("2(x3),1", 2), 2);
  EXPECT_EQ(*SlurmTasksOnNode("2(x3),1", 3), 1);
}

TEST(SlurmTasksOnNode, OneNode_GivesItsTasks) { EXPECT_EQ(*SlurmTasksOnNode("16", 0), 16); }

TEST(SlurmTasksOnNode, NodeBeyondTheList_IsRefused) {
  EXPECT_EQ(SlurmTasksOnNode("2(x3),1", 4).status().message(),
            "'2(x3),1' has 4 nodes, none is number 4");
}

TEST(SlurmTasksOnNode, OtherForm_IsRefused) {
  for (const char* text : {"", "x", "2(x3", "2(x)", "2(3)", "2)", "2,,1"}) {
    EXPECT_EQ(SlurmTasksOnNode(text, 1).status().message(),
              std::string("got '") + text + "', expected a list like 2(x3),1");
  }
}

}  // namespace
}  // namespace gradwire
