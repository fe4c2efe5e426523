// A model check, by relacy, of how workers share memory: the protocols of MemoryLayout and
// PayloadSlots, and the Bell, with the orders of memory_orders.h. Each runs in many interleavings,
// and each load may see any value that C++ allows. Then each order is weakened by itself, which
// must fail.
#include <gtest/gtest.h>

#include <ostream>
#include <streambuf>
#include <vector>

#include "worker/backends/memory/memory_orders.h"

// relacy replaces the names of std's orders by macros of its own.
namespace {
enum class Order { kRelaxed, kAcquire, kRelease, kBoth, kTotal };
constexpr Order OrderOf(std::memory_order order) {
  return order == std::memory_order_seq_cst   ? Order::kTotal
         : order == std::memory_order_acq_rel ? Order::kBoth
         : order == std::memory_order_release ? Order::kRelease
         : order == std::memory_order_acquire ? Order::kAcquire
                                              : Order::kRelaxed;
}
constexpr Order kPublish = OrderOf(gradwire::kPublishOrder);
constexpr Order kSee = OrderOf(gradwire::kSeeOrder);
constexpr Order kBell = OrderOf(gradwire::kBellOrder);
}  // namespace

#include <relacy/relacy.hpp>
// GoogleTest needs the words of the language.
#undef new
#undef delete

namespace {

constexpr int kIterations = 50000;

rl::memory_order ToRelacy(Order order) {
  static constexpr rl::memory_order kOrders[] = {rl::mo_relaxed, rl::mo_acquire, rl::mo_release,
                                                 rl::mo_acq_rel, rl::mo_seq_cst};
  return kOrders[static_cast<int>(order)];
}

// The orders in use; one of them is weakened.
struct LayoutOrders {
  Order contributed = kPublish, see_contributed = kSee, folded = kPublish, see_folded = kSee;
};
LayoutOrders layout_orders;

struct BellOrders {
  Order ring = kBell, see_sleeping = kBell, sleep = kBell, see_rings = kBell;
};
BellOrders bell_orders;

// Two workers, two steps. `terms` and `means` are written in both, so a worker that is a step ahead
// would change what another still reads.
struct LayoutModel : rl::test_suite<LayoutModel, 2> {
  static constexpr int kSteps = 2;
  rl::var<int> terms[2], means[2];
  rl::atomic<int> contributed[2], folded[2];

  void before() {
    for (int worker = 0; worker < 2; ++worker) {
      contributed[worker]($).store(0, rl::mo_relaxed);
      folded[worker]($).store(0, rl::mo_relaxed);
    }
  }

  void Await(rl::atomic<int>* points, int step, Order order) {
    for (int worker = 0; worker < 2; ++worker) {
      rl::linear_backoff wait;
      while (points[worker]($).load(ToRelacy(order)) < step) wait.yield($);
    }
  }

  void thread(unsigned self) {
    const int me = static_cast<int>(self);
    for (int step = 1; step <= kSteps; ++step) {
      terms[me]($) = 10 * step + me;
      contributed[me]($).store(step, ToRelacy(layout_orders.contributed));
      Await(contributed, step, layout_orders.see_contributed);
      const int mean = terms[0]($) + terms[1]($);
      means[me]($) = mean;
      folded[me]($).store(step, ToRelacy(layout_orders.folded));
      Await(folded, step, layout_orders.see_folded);
      for (int worker = 0; worker < 2; ++worker) {
        const int read = means[worker]($);
        RL_ASSERT(read == 20 * step + 1);
      }
    }
  }
};

struct SlotOrders {
  Order full = kPublish, see_full = kSee, empty = kPublish, see_empty = kSee;
};
SlotOrders slot_orders;

// A sender and a receiver, two payloads, one slot. The receiver waits for the mark in place of the
// chunk that names the slot.
struct SlotModel : rl::test_suite<SlotModel, 2> {
  static constexpr int kPayloads = 2;
  rl::var<int> payload;
  rl::atomic<int> mark;

  void before() { mark($).store(0, rl::mo_relaxed); }

  void thread(unsigned self) {
    for (int i = 1; i <= kPayloads; ++i) {
      rl::linear_backoff wait;
      if (self == 0) {
        while (mark($).load(ToRelacy(slot_orders.see_empty)) != 0) wait.yield($);
        payload($) = i;
        mark($).store(i, ToRelacy(slot_orders.full));
      } else {
        while (mark($).load(ToRelacy(slot_orders.see_full)) == 0) wait.yield($);
        const int read = payload($);
        RL_ASSERT(read == i);
        mark($).store(0, ToRelacy(slot_orders.empty));
      }
    }
  }
};

// A ringer and a sleeper. `woken` stands for the kernel's call.
struct BellModel : rl::test_suite<BellModel, 2> {
  rl::atomic<unsigned> rings, sleeping;
  bool woken = false, sleeps = false;

  void before() {
    rings($).store(0, rl::mo_relaxed);
    sleeping($).store(0, rl::mo_relaxed);
  }

  void thread(unsigned self) {
    if (self == 0) {
      rings($).fetch_add(1, ToRelacy(bell_orders.ring));
      woken = sleeping($).load(ToRelacy(bell_orders.see_sleeping)) != 0;
    } else {
      sleeping($).store(1, ToRelacy(bell_orders.sleep));
      sleeps = rings($).load(ToRelacy(bell_orders.see_rings)) == 0;
    }
  }

  void after() { RL_ASSERT(woken || !sleeps); }
};

// Takes all that is written to it. (A stream that allocates would mix relacy's allocator with
// ours.)
class Nowhere : public std::streambuf {
 protected:
  int overflow(int written) override { return written; }
};

template <typename Model>
bool Holds() {
  Nowhere nowhere;
  std::ostream output(&nowhere);
  rl::test_params params;
  params.iteration_count = kIterations;
  params.search_type = rl::sched_random;
  params.output_stream = &output;
  params.progress_stream = &output;
  return rl::simulate<Model>(params);
}

// Expects the model to hold as it is, and to fail with each order replaced by `weaker`.
template <typename Model, typename Orders>
void Check(Orders* orders, const std::vector<Order Orders::*>& all,
           const std::vector<Order>& weaker) {
  EXPECT_TRUE(Holds<Model>());
  for (size_t i = 0; i < all.size(); ++i) {
    const Orders kept = *orders;
    orders->*all[i] = weaker[i];
    EXPECT_FALSE(Holds<Model>()) << "with weaker order " << i;
    *orders = kept;
  }
}

TEST(MemoryModel, Layout_AnyOrderWeaker_Fails) {
  Check<LayoutModel, LayoutOrders>(
      &layout_orders,
      {&LayoutOrders::contributed, &LayoutOrders::see_contributed, &LayoutOrders::folded,
       &LayoutOrders::see_folded},
      {Order::kRelaxed, Order::kRelaxed, Order::kRelaxed, Order::kRelaxed});
}

TEST(MemoryModel, Slots_AnyOrderWeaker_Fails) {
  Check<SlotModel, SlotOrders>(
      &slot_orders,
      {&SlotOrders::full, &SlotOrders::see_full, &SlotOrders::empty, &SlotOrders::see_empty},
      {Order::kRelaxed, Order::kRelaxed, Order::kRelaxed, Order::kRelaxed});
}

TEST(MemoryModel, Bell_AnyOrderWeaker_Fails) {
  Check<BellModel, BellOrders>(
      &bell_orders,
      {&BellOrders::ring, &BellOrders::see_sleeping, &BellOrders::sleep, &BellOrders::see_rings},
      {Order::kBoth, Order::kAcquire, Order::kRelease, Order::kAcquire});
}

}  // namespace
