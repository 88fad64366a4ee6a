// A file in memory, for reading.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace edgespec {

struct MappedFile {
  std::shared_ptr<std::byte> start;  // unmapped with its last owner; null if it cannot be mapped
  std::size_t bytes = 0;
};

// Pages are shared by all processes that map the file, and are read when they are used.
MappedFile map_file(const std::string& path);

}  // namespace edgespec
