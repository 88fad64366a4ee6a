#include "text/utf8.h"

#include <cstdint>

namespace edgespec {
namespace {

struct Read {
  char32_t character;
  size_t bytes;
  bool valid;
};

// The character at the beginning of bytes, or the longest part of one: of that no other follows.
Read read(std::string_view bytes) {
  const auto byte = [&](size_t i) { return i < bytes.size() ? uint8_t(bytes[i]) : 0; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {kReplacement, 1, false};
  // The second byte's limits keep out longer spellings, surrogates and what is above U+10FFFF.
  const uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return {kReplacement, 1, false};
  char32_t character = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {kReplacement, i, false};
    character = character << 6 | (byte(i) & 0x3F);
  }
  return {character, length, true};
}

}  // namespace

void append_utf8(std::string& text, char32_t character) {
  if (character < 0x80) {
    text += char(character);
    return;
  }
  const int following = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  constexpr int kLead[] = {0, 0xC0, 0xE0, 0xF0};
  text += char(kLead[following] | character >> (6 * following));
  for (int i = following - 1; i >= 0; --i) text += char(0x80 | (character >> (6 * i) & 0x3F));
}

std::string utf8_of(std::u32string_view characters) {
  std::string text;
  text.reserve(characters.size());
  for (const char32_t character : characters) append_utf8(text, character);
  return text;
}

std::u32string characters_of(std::string_view bytes) {
  std::u32string characters;
  characters.reserve(bytes.size());
  while (!bytes.empty()) {
    const Read next = read(bytes);
    characters += next.character;
    bytes.remove_prefix(next.bytes);
  }
  return characters;
}

size_t first_invalid(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const Read next = read(bytes.substr(at));
    if (!next.valid) return at;
    at += next.bytes;
  }
  return std::string_view::npos;
}

}  // namespace edgespec
