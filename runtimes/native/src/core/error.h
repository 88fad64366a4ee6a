// Errors of this library: one line with the value, the limit and the way out.
#pragma once

#include <stdexcept>

namespace edgespec {

// Something outside the program is wrong: a file, a model, a machine.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller asked for something that cannot be.
struct UsageError : Error {
  using Error::Error;
};

// A row of logits from which no token can be drawn.
struct RefusedLogitsError : Error {
  using Error::Error;
};

// The caller cancelled the text.
struct CancelledError : Error {
  using Error::Error;
};

}  // namespace edgespec
