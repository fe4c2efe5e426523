#ifndef GRADWIRE_COMMON_COMMON_PCH_H_
#define GRADWIRE_COMMON_COMMON_PCH_H_

// Precompiled for all libraries without torch, because these headers take most of the time of a
// source's compilation.
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gradwire/v1/aggregation.grpc.pb.h"
#include "gradwire/v1/membership.grpc.pb.h"
#include "gradwire/v1/neighbor.grpc.pb.h"

#endif  // GRADWIRE_COMMON_COMMON_PCH_H_
