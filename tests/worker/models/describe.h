#ifndef GRADWIRE_TESTS_WORKER_MODELS_DESCRIBE_H_
#define GRADWIRE_TESTS_WORKER_MODELS_DESCRIBE_H_

#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace gradwire::testing {

// Kind (parameter or buffer), name, shape and SHA-256 of each tensor, as the scripts of
// tests/oracle describe them: all parameters, then all buffers.
std::vector<nlohmann::json> DescribeTensors(const torch::nn::Module& model);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_WORKER_MODELS_DESCRIBE_H_
