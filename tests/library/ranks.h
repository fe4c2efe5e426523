#ifndef GRADWIRE_TESTS_LIBRARY_RANKS_H_
#define GRADWIRE_TESTS_LIBRARY_RANKS_H_

#include <gradwire/ddp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gradwire::testing {

// What a rank does with its group.
using RankBody = std::function<void(const std::shared_ptr<ProcessGroup>&)>;

// How a rank ended: none if its body returned and the group was closed.
using Ends = std::vector<std::optional<Error>>;

// Options of `rank` in a run of its own on free ports of 127.0.0.1, hosted by rank 0, which
// comes up first. `options` are those that all ranks have.
Ends RunRanks(int world_size, const RankBody& body, const GroupOptions& options = {});

// The same, and fails the test unless all ranks end well.
void RunRanksWell(int world_size, const RankBody& body, const GroupOptions& options = {});

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_LIBRARY_RANKS_H_
