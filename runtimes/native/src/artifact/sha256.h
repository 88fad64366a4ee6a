// SHA-256 (FIPS 180-4): the digests of an exported folder.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace edgespec {

class Sha256 {
 public:
  void add(std::string_view bytes);
  // In hexadecimal; nothing may be added afterwards.
  std::string hex();

 private:
  void mix(const unsigned char* block);

  std::array<uint32_t, 8> state_ = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
  std::array<unsigned char, 64> block_{};
  uint64_t bytes_ = 0;
};

std::string sha256(std::string_view bytes);

// Of a file's content. Throws Error: it cannot be read.
std::string sha256_of(const std::filesystem::path& file);

}  // namespace edgespec
