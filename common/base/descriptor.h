#ifndef GRADWIRE_COMMON_BASE_DESCRIPTOR_H_
#define GRADWIRE_COMMON_BASE_DESCRIPTOR_H_

#include <cstddef>
#include <utility>

namespace gradwire {

// Owns a file descriptor; -1: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Reset(other.Release());
    return *this;
  }

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1);  // closes what it has

 private:
  int fd_ = -1;
};

// Lets this process have as many descriptors as it may. To be called at the start of a program:
// a server that has none left takes no one in any more.
void RaiseDescriptorLimit();

// How many descriptors this process may have.
size_t DescriptorLimit();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_DESCRIPTOR_H_
