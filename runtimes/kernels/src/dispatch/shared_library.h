// A function of a shared library in the folder of this one.
#pragma once

#include <string>

namespace edgespec {

// Null, and `problem` says why, if there is none. The library stays loaded.
void* function_of_sibling(const std::string& library, const char* function, std::string& problem);

}  // namespace edgespec
