// The machine that row invariance was measured on: a record with a digest.
#pragma once

#include <string>

namespace edgespec {

// SHA-256 of the record of everything that decides which kernels run a model, and so which bits it
// computes, as Python writes it (runtimes/edgespec_runtimes/machine.py): what was measured there
// holds here where the digest is the same. `threads`: 0 is the runtime's own choice.
std::string machine_digest(const std::string& onnxruntime_version, int threads);

// The same of what this library measured: with texts that share calls, since edition 2. Python
// measures more, and must not take this for its own.
std::string own_digest(const std::string& machine_digest);

// The machine in a sentence. No decision may depend on its words.
std::string machine_sentence(const std::string& onnxruntime_version, int threads);

}  // namespace edgespec
