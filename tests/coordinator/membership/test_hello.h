#ifndef GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_TEST_HELLO_H_
#define GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_TEST_HELLO_H_

#include <cstdint>
#include <optional>

#include "gradwire/v1/membership.pb.h"

namespace gradwire::testing {

// A Hello with one parameter of 6 floats, one bucket of 24 bytes and the
// settings lr = 0.1 and seed = 744. Its incarnation and the port of its address
// (10.10.1.2) are `id`.
v1::Hello TestHello(uint64_t id, std::optional<int> rank = std::nullopt);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_TEST_HELLO_H_
