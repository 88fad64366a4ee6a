// When a file was changed last.
#pragma once

#include <cstdint>
#include <filesystem>

namespace edgespec {

// In nanoseconds since 1970, to the digit that Python's os.stat has; 0 where it is not known.
int64_t changed_nanoseconds(const std::filesystem::path& file);

}  // namespace edgespec
