#include "text/chars_map.h"

#include <cstring>

#include "core/error.h"
#include "text/utf8.h"

namespace edgespec {
namespace {

constexpr size_t kShort = 6;            // bytes: a grapheme of fewer is looked up as a whole
constexpr uint32_t kHasLeaf = 1U << 8;  // bits of a unit of a double-array trie, see Darts-clone
constexpr uint32_t kIsValue = 1U << 31;

std::string decoded(std::string_view base64) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | uint32_t(digit);
    count += 6;
    if (count >= 8) bytes += char(bits >> (count -= 8));
  }
  return bytes;
}

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

CharsMap::CharsMap(std::string_view base64) {
  const std::string bytes = decoded(base64);
  uint32_t size = 0;
  if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
  if (size % 4 != 0 || size < 4 || size + 4ULL > bytes.size()) {
    throw Error("its precompiled_charsmap is cut off");
  }
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + 4, size);
  replacements_ = bytes.substr(4 + size);
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i] >= kIsValue) continue;
    const size_t child = uint32_t(i) ^ offset_of(units_[i]);
    if ((child | 0xFF) >= units_.size())
      throw Error("its precompiled_charsmap leads out of its trie");
    if ((units_[i] & kHasLeaf) == 0) continue;
    const uint32_t value = units_[child] & ~kIsValue;
    if (value >= replacements_.size() || (replacements_[value] & 0xC0) == 0x80) {
      throw Error("its precompiled_charsmap leads out of its replacements");
    }
  }
}

const char* CharsMap::find(std::string_view key) const {
  uint32_t node = offset_of(units_[0]);
  for (const char c : key) {
    const auto byte = uint8_t(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return nullptr;
    const uint32_t unit = units_[node];
    if ((unit & (kIsValue | 0xFF)) != byte) return nullptr;
    node ^= offset_of(unit);
    if ((unit & kHasLeaf) != 0) return replacements_.c_str() + (units_[node] & ~kIsValue);
  }
  return nullptr;
}

std::u32string CharsMap::operator()(std::u32string_view text) const {
  std::u32string replaced;
  const auto add = [&](std::u32string_view part) {
    const char* found = find(utf8_of(part));
    if (found != nullptr) replaced += characters_of(found);
    return found != nullptr;
  };
  while (!text.empty()) {
    const std::u32string_view grapheme = text.substr(0, grapheme_end(text));
    text.remove_prefix(grapheme.size());
    if (utf8_of(grapheme.substr(0, kShort)).size() < kShort && add(grapheme)) continue;
    for (const char32_t& character : grapheme) {
      if (!add({&character, 1})) replaced += character;
    }
  }
  return replaced;
}

}  // namespace edgespec
