#ifndef GRADWIRE_WORKER_LEARNING_OPTIMIZER_KEY_H_
#define GRADWIRE_WORKER_LEARNING_OPTIMIZER_KEY_H_

#include <torch/torch.h>

#include <sstream>
#include <string>
#include <type_traits>

namespace gradwire {

// Returns the key of `tensor` in `states`, a map like Optimizer::state: newer versions of torch use
// the address of a tensor, older ones that address as text.
template <typename Map>
typename Map::key_type OptimizerKeyOf(const Map& /*states*/, const torch::Tensor& tensor) {
  if constexpr (std::is_same_v<typename Map::key_type, std::string>) {
    std::ostringstream text;
    text << tensor.unsafeGetTensorImpl();
    return text.str();
  } else {
    return tensor.unsafeGetTensorImpl();
  }
}

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_OPTIMIZER_KEY_H_
