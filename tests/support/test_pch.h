#ifndef GRADWIRE_TESTS_SUPPORT_TEST_PCH_H_
#define GRADWIRE_TESTS_SUPPORT_TEST_PCH_H_

// Precompiled once for all test programs without torch, because these headers take most of the time
// of a test's compilation.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "gradwire/v1/membership.grpc.pb.h"
#include "gradwire/v1/neighbor.grpc.pb.h"

#endif  // GRADWIRE_TESTS_SUPPORT_TEST_PCH_H_
