#include <gtest/gtest.h>

#include <thread>

#include "tests/cluster/backend_cluster.h"
#include "tests/worker/run/training.h"
#include "worker/options/traits.h"

namespace gradwire::testing {
