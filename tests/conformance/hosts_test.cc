// Workers that share hosts: the ring's results, and the bytes between hosts.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/random_floats.h"

namespace gradwire::hosts_test {
namespace {

constexpr uint64_t kElements = 70003;

using Data = std::vector<std::vector<std::string>>;  // by rank, by bucket

// Ranks by worker, and the host of each worker.
struct Layout {
  std::string name;
  Deal deal;
  std::vector<int> hosts;

  int world_size() const {
    size_t ranks = 0;
    for (const auto& worker : deal) ranks += worker.size();
    return static_cast<int>(ranks);
  }
};

Data RandomData(const std::vector<BucketSpec>& buckets, int world_size) {
  std::mt19937 random(7);
  Data data(static_cast<size_t>(world_size));
  for (auto& rank : data) {
    for (const BucketSpec& bucket : buckets) {
      rank.push_back(testing::RandomFloatBytes(bucket.bytes, &random));
    }
  }
  return data;
}

// What one run of `layout` gave.
struct Outcome {
  Data data;
  std::map<int, uint64_t> sent;  // bytes to other hosts, by host
  uint64_t crossed = 0;          // bytes between any two hosts
  uint64_t within = 0;           // bytes between workers of a host, through the network
  uint64_t received = 0;         // bytes, through the network
  uint64_t all_sent = 0;         // likewise
};

Outcome RunSteps(const Layout& layout, const std::vector<BucketSpec>& buckets, v1::DType wire,
                 int steps, const std::string& backend = "ring",
                 const Compression& compression = {}) {
  BackendCluster::Settings settings;
  settings.wire = wire;
  settings.compression = compression;
  settings.hosts = layout.hosts;
  settings.groups = 2;
  BackendCluster cluster(backend, layout.deal, buckets, settings);
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    outcome.data = RandomData(buckets, layout.world_size());
    for (const absl::Status& status : cluster.RunStep(step, &outcome.data)) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
  std::map<Rank, int> host_of;
  for (size_t worker = 0; worker < layout.deal.size(); ++worker) {
    for (const int rank : layout.deal[worker]) host_of[Rank(rank)] = layout.hosts[worker];
  }
  for (size_t worker = 0; worker < layout.deal.size(); ++worker) {
    const TransferTotals totals = cluster.exchange(static_cast<int>(worker)).totals();
    outcome.received += totals.bytes_received;
    outcome.all_sent += totals.bytes_sent;
    for (const auto& [link, bytes] : totals.sent_on) {
      if (host_of.at(link.first) == host_of.at(link.second)) {
        outcome.within += bytes;
        continue;
      }
      outcome.sent[host_of.at(link.first)] += bytes;
      outcome.crossed += bytes;
    }
  }
  return outcome;
}

class HostsTest : public ::testing::TestWithParam<Layout> {
 protected:
  // A host for each rank.
  static Layout Apart(int world_size) {
    Layout apart{"", OneEach(world_size), {}};
    for (int rank = 0; rank < world_size; ++rank) apart.hosts.push_back(rank);
    return apart;
  }
};

TEST_P(HostsTest, RunStep_RanksShareHosts_HaveTheBitsOfHostsOfTheirOwn) {
  const std::vector<BucketSpec> buckets = {{4 * kElements, v1::DTYPE_FLOAT32},
                                           {22080, v1::DTYPE_BYTES, Rank(1)},
                                           {8, v1::DTYPE_FLOAT32}};
  for (const v1::DType wire : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16}) {
    const Outcome shared = RunSteps(GetParam(), buckets, wire, 2);
    const Outcome apart = RunSteps(Apart(GetParam().world_size()), buckets, wire, 2);
    EXPECT_TRUE(shared.data == apart.data) << "wire " << wire;
    EXPECT_LT(shared.crossed, apart.crossed);
  }
}

TEST_P(HostsTest, RunStep_HopsOfAHostThroughMemory_SameBitsAndOnlyTheOthersAreSent) {
  const std::vector<BucketSpec> buckets = {{16 * kElements, v1::DTYPE_FLOAT32},
                                           {22080, v1::DTYPE_BYTES, Rank(1)},
                                           {2000000, v1::DTYPE_FLOAT32},
                                           {8, v1::DTYPE_FLOAT32}};
  for (const v1::DType wire : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16}) {
    const Outcome network = RunSteps(GetParam(), buckets, wire, 3);
    const Outcome memory = RunSteps(GetParam(), buckets, wire, 3, "auto");
    EXPECT_TRUE(memory.data == network.data) << "wire " << wire;
    EXPECT_EQ(memory.sent, network.sent);
    EXPECT_GT(network.within, 0u);
    EXPECT_EQ(memory.within, 0u);
    EXPECT_EQ(memory.received, memory.crossed);
  }
}

// With a codec `auto` is `sharded` between hosts.
TEST_P(HostsTest, RunStep_SharesOfAHostThroughMemory_SameBitsAndOnlyTheOthersAreSent) {
  const std::vector<BucketSpec> buckets = {{16 * kElements, v1::DTYPE_FLOAT32},
                                           {22080, v1::DTYPE_BYTES, Rank(1)},
                                           {8, v1::DTYPE_FLOAT32}};
  for (const char* name : {"int8", "top-k:0.1"}) {
    const Compression compression = ParseCompression(name).value();
    const Outcome network =
        RunSteps(GetParam(), buckets, compression.dtype, 3, "sharded", compression);
    const Outcome memory = RunSteps(GetParam(), buckets, compression.dtype, 3, "auto", compression);
    EXPECT_TRUE(memory.data == network.data) << name;
    EXPECT_EQ(network.received, network.all_sent);
    EXPECT_EQ(memory.received, memory.all_sent);
    // Of W - 1 others, those of the same host get nothing through the network.
    if (GetParam().name == "pairs") {
      EXPECT_NEAR(static_cast<double>(memory.all_sent), 2.0 / 3 * network.all_sent,
                  0.01 * network.all_sent)
          << name;
    }
    EXPECT_LT(memory.all_sent, network.all_sent) << name;
    EXPECT_GT(memory.all_sent, 0u) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostsTest,
                         ::testing::ValuesIn(std::vector<Layout>{
                             {"pairs", OneEach(4), {0, 0, 1, 1}},
                             {"unequal", OneEach(5), {0, 0, 0, 1, 1}},
                             {"in_turn", OneEach(5), {0, 1, 2, 0, 1}},
                             {"one_alone", OneEach(3), {0, 1, 0}},
                             {"after_a_loss", {{0, 3}, {1}, {2}}, {0, 0, 1}},
                             {"of_a_host", {{0, 2}, {3, 1}, {4}}, {0, 1, 1}}}),
                         [](const auto& info) { return info.param.name; });

// Of what a limit keeps from sharing memory.
TEST(HostLimitsTest, RunStep_SlotsBeyondALimit_HopsOfAHostGoThroughTheNetwork) {
  const std::vector<BucketSpec> buckets = {{4 * kElements, v1::DTYPE_FLOAT32}};
  BackendCluster::Settings settings;
  settings.hosts = {0, 0, 1, 1};
  settings.limits.address = 4 << 20;
  BackendCluster cluster("auto", OneEach(4), buckets, settings);
  Data data = RandomData(buckets, 4);
  for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(cluster.exchange(0).totals().sent_on[std::pair(Rank(0), Rank(1))], 0u);
}

TEST(HostLimitsTest, RunStep_SlotsBeyondALimit_SharesOfAHostGoThroughTheNetwork) {
  const std::vector<BucketSpec> buckets = {{4 * kElements, v1::DTYPE_FLOAT32}};
  BackendCluster::Settings settings;
  settings.hosts = {0, 0, 1, 1};
  settings.compression = ParseCompression("int8").value();
  settings.wire = settings.compression.dtype;
  std::vector<uint64_t> sent;
  for (const uint64_t limit : {MemoryLimits::kNoLimit, uint64_t{4 << 20}}) {
    settings.limits.address = limit;
    BackendCluster cluster("auto", OneEach(4), buckets, settings);
    Data data = RandomData(buckets, 4);
    for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
    for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
    sent.push_back(cluster.exchange(0).totals().bytes_sent);
  }
  EXPECT_LT(sent[0], sent[1]);
}

// Two hosts with m workers each send (3 - 1/m) / 2 of the tensor.
TEST(HostBytesTest, RunStep_TwoHosts_EachMeanEntersAHostOnce) {
  const uint64_t bytes = 1 << 20;  // as many blocks for each rank
  const std::map<int, double> shares = {{1, 1.0}, {2, 1.25}, {4, 1.375}};
  for (const auto& [each, share] : shares) {
    Layout layout{"", OneEach(2 * each), {}};
    for (int rank = 0; rank < 2 * each; ++rank) layout.hosts.push_back(rank / each);
    const Outcome outcome = RunSteps(layout, {{bytes, v1::DTYPE_FLOAT32}}, v1::DTYPE_FLOAT32, 1);
    for (const auto& [host, sent] : outcome.sent) {
      EXPECT_EQ(sent, static_cast<uint64_t>(share * static_cast<double>(bytes))) << each;
    }
  }
}

}  // namespace
}  // namespace gradwire::hosts_test
