// Errors of kernels.
#pragma once

#include <stdexcept>
#include <string>

namespace edgespec {

// A call that a kernel cannot compute; ONNX Runtime shows the message after the operator's name.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws the message made of all parts, words and numbers.
template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  const auto text = [](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      return std::to_string(part);
    } else {
      return std::string(part);
    }
  };
  throw Failure((text(parts) + ...));
}

}  // namespace edgespec
