// Paths are UTF-8 in the interface, in manifests and in messages, on every system.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace edgespec {

inline std::filesystem::path path_of(std::string_view utf8) {
  return std::u8string(utf8.begin(), utf8.end());
}

inline std::string name_of(const std::filesystem::path& path) {
  const std::u8string name = path.u8string();
  return {name.begin(), name.end()};
}

}  // namespace edgespec
