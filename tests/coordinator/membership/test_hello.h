#ifndef GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_TEST_HELLO_H_
#define GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_TEST_HELLO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gradwire/v1/membership.pb.h"

namespace gradwire::testing {

// A Hello with the settings lr = 0.1 and seed = 744 that wants these ranks. Its
// incarnation and the port of its address (10.10.1.2) are `id`.
v1::Hello TestHello(uint64_t id, const std::vector<int>& ranks = {});

v1::Offer TestOffer(uint64_t incarnation, const std::string& address);

// One parameter of 6 floats and one bucket of 24 bytes.
v1::Layout TestLayout(int id = 0);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_TEST_HELLO_H_
