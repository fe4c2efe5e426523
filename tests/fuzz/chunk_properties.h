#ifndef GRADWIRE_TESTS_FUZZ_CHUNK_PROPERTIES_H_
#define GRADWIRE_TESTS_FUZZ_CHUNK_PROPERTIES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire {

// Puts `input` through all that happens to a received chunk: decoding, judgement
// of the header, checksum, fold, sum of a ring hop, widening, an aggregator.
// Returns "" if every property held, or a sentence that names the one that did
// not. Memory errors are for the sanitizers to find.
//
//   input[0]   what to set right behind the decoder, so that later stages are
//              reached: bit 0 run_id, 1 epoch and generation, 2 step, 3 checksum
//   input[1]   bytes in each slice that the message comes in, less one
//   the rest   the message
std::string ViolatedProperty(absl::string_view input);

// Good inputs of every kind: each dtype, whole and part of a bucket, one slice
// and many; and bad ones that are nearly good.
std::vector<std::string> SeedInputs();

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FUZZ_CHUNK_PROPERTIES_H_
