// The instruction sets that kernels are built for, and the library of the one that is used here.
//
// A library of kernels is built for each target, or for some of them, from the same sources.
// `EDGESPEC_KERNELS` forces a target by its name; by default the fastest one that was built and
// that the processor has is used.
#pragma once

#include <string>

namespace edgespec {

// The target in use. `problem` says in one line why there is none.
struct Choice {
  std::string target;
  std::string problem;
};

Choice chosen_target();

// A function of the library of the chosen target, which lies next to this one; null, and `problem`
// says why, if there is none.
void* chosen_function(const char* name, std::string& problem);

}  // namespace edgespec
