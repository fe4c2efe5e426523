#include "tests/simulate/fiber.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace gradwire::simulate {
namespace {

// Enough for torch's backward pass; only pages that are touched take memory.
constexpr size_t kStackBytes = 1 << 20;

// Those that are free: simulations need the same ones again and again.
std::vector<void*>& FreeStacks() {
  static auto* const stacks = new std::vector<void*>();
  return *stacks;
}

void* TakeStack() {
  if (!FreeStacks().empty()) {
    void* stack = FreeStacks().back();
    FreeStacks().pop_back();
    return stack;
  }
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) {
    std::perror("simulate: no memory for a stack");
    std::exit(1);
  }
  return stack;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(TakeStack()) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = &outside_;
  // makecontext passes on ints.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
}

Fiber::~Fiber() { FreeStacks().push_back(stack_); }

void Fiber::Enter(unsigned low, unsigned high) {
  auto* self =
      reinterpret_cast<Fiber*>(static_cast<uintptr_t>(low) | static_cast<uintptr_t>(high) << 32);
  self->body_();
  self->done_ = true;
}

void Fiber::Resume() {
  running_ = true;
  swapcontext(&outside_, &inside_);
  running_ = false;
}

void Fiber::Yield() { swapcontext(&inside_, &outside_); }

}  // namespace gradwire::simulate
