#ifndef GRADWIRE_TESTS_SUPPORT_POWER_CUT_H_
#define GRADWIRE_TESTS_SUPPORT_POWER_CUT_H_

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "tests/support/recording_disk.h"

namespace gradwire::testing {

// What a power cut may do to an operation that was not synced.
enum class Unsynced { kDone, kLost, kDrawn };

// Writes to the empty folder `target` what may be left of the folder `root`, empty at first, if the
// power fails before operation `count`:
//   - a file has all writes before its last sync. Each later one is done, lost, or torn: some of
//   its
//     sectors of 512 bytes are lost;
//   - a folder has all names as of its last sync. Each later creation, rename and removal is done
//   or
//     lost, whatever becomes of the others.
// With `unsynced` kDrawn, `random` decides for each.
void WriteAfterCut(const std::vector<DiskOperation>& operations, size_t count,
                   const std::string& root, Unsynced unsynced, std::mt19937* random,
                   const std::string& target);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_POWER_CUT_H_
