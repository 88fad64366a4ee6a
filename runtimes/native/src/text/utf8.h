// Texts as characters, and as bytes of UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace edgespec {

constexpr char32_t kReplacement = 0xFFFD;  // stands for bytes that are no UTF-8

void append_utf8(std::string& text, char32_t character);
std::string utf8_of(std::u32string_view characters);

// The characters of UTF-8; each longest part that is none becomes U+FFFD, as in Rust and browsers.
std::u32string characters_of(std::string_view bytes);

// Where bytes stop being UTF-8; npos if they are all.
size_t first_invalid(std::string_view bytes);

}  // namespace edgespec
