#include "text/byte_characters.h"

#include <array>

namespace edgespec {
namespace {

constexpr char32_t kFirst = 0x100;  // stands for the first byte that is not visible

constexpr std::array<char32_t, 256> kCharacters = [] {
  std::array<char32_t, 256> all{};
  char32_t next = kFirst;
  for (uint32_t byte = 0; byte < 256; ++byte) all[byte] = is_visible_byte(byte) ? byte : next++;
  return all;
}();

constexpr std::array<uint8_t, 68> kHidden = [] {
  std::array<uint8_t, 68> all{};
  size_t count = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!is_visible_byte(byte)) all[count++] = uint8_t(byte);
  }
  return all;
}();

}  // namespace

char32_t byte_character(uint8_t byte) { return kCharacters[byte]; }

std::optional<uint8_t> byte_of(char32_t character) {
  if (character < kFirst && is_visible_byte(character)) return uint8_t(character);
  if (character >= kFirst && character < kFirst + kHidden.size())
    return kHidden[character - kFirst];
  return std::nullopt;
}

std::u32string as_byte_characters(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (const char byte : bytes) text += byte_character(uint8_t(byte));
  return text;
}

}  // namespace edgespec
