#ifndef GRADWIRE_BENCH_MACHINE_H_
#define GRADWIRE_BENCH_MACHINE_H_

#include <nlohmann/json.hpp>
#include <string>

namespace gradwire {

// What figures depend on: date (UTC), cores of this process, CPU model, kernel,
// the BLAS library, and the versions of Gradwire and gRPC.
nlohmann::ordered_json DescribeMachine();

// A list for Markdown, a line for each field of an object of texts and numbers.
std::string MarkdownList(const nlohmann::ordered_json& fields);

// "model name" of the first processor in the text of /proc/cpuinfo; "unknown" without.
std::string CpuModel(const std::string& cpuinfo);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_MACHINE_H_
