// GPT-2's character for each byte: visible ones stand for themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace edgespec {

constexpr bool is_visible_byte(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

char32_t byte_character(uint8_t byte);
// The byte that a character stands for; none for others.
std::optional<uint8_t> byte_of(char32_t character);

std::u32string as_byte_characters(std::string_view bytes);

}  // namespace edgespec
