#ifndef GRADWIRE_TESTS_SUPPORT_CIFAR_FILES_H_
#define GRADWIRE_TESTS_SUPPORT_CIFAR_FILES_H_

#include <string>

namespace gradwire::testing {

// A record of CIFAR-10's binary files: one byte label, then 3 planes of 32 × 32.
inline constexpr int kCifarRecordBytes = 1 + 3 * 32 * 32;

// `records` records whose labels go round 0 … 9 and whose pixels depend on the
// label, so that a model can learn them.
std::string CifarRecords(int records);

// Writes data_batch_1.bin … data_batch_5.bin and test_batch.bin to `dir`, each
// with `records` records, and batches.meta.txt.
void WriteCifarFiles(const std::string& dir, int records);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_CIFAR_FILES_H_
