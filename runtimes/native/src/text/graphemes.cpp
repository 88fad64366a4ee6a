// Rules of Unicode's annex 29, for what CharsMap asks.
#include "text/chars_map.h"
#include "text/unicode.h"

namespace edgespec {
namespace {

constexpr char32_t kJoiner = 0x200D;

enum class Jamo { kNone, kLead, kVowel, kTrail, kOpen, kClosed };  // the last two: syllables

Jamo jamo_of(char32_t c) {
  if (c - 0x1100 < 0x60 || c - 0xA960 < 0x1D) return Jamo::kLead;
  if (c - 0x1160 < 0x48 || c - 0xD7B0 < 0x17) return Jamo::kVowel;
  if (c - 0x11A8 < 0x58 || c - 0xD7CB < 0x31) return Jamo::kTrail;
  if (c - 0xAC00 >= 11172) return Jamo::kNone;
  return (c - 0xAC00) % 28 == 0 ? Jamo::kOpen : Jamo::kClosed;
}

bool is_one_syllable(Jamo before, Jamo after) {
  if (before == Jamo::kLead) return after != Jamo::kNone && after != Jamo::kTrail;
  const bool goes_on = after == Jamo::kTrail;
  if (before == Jamo::kVowel || before == Jamo::kOpen) return goes_on || after == Jamo::kVowel;
  return goes_on && (before == Jamo::kTrail || before == Jamo::kClosed);
}

bool is_control(char32_t c) { return c == '\r' || c == '\n' || has(Property::kGraphemeControl, c); }
bool is_extension(char32_t c) { return c == kJoiner || has(Property::kGraphemeExtend, c); }
bool is_flag(char32_t c) { return c - 0x1F1E6 < 26; }

}  // namespace

size_t grapheme_end(std::u32string_view text) {
  bool is_emoji = has(Property::kPictographic, text[0]);  // and only extensions since
  size_t flags = is_flag(text[0]);
  for (size_t at = 1; at < text.size(); ++at) {
    const char32_t before = text[at - 1], after = text[at];
    if (before == '\r' && after == '\n') continue;
    if (is_control(before) || is_control(after)) return at;
    const bool joins = is_extension(after) || has(Property::kGraphemeSpacingMark, after) ||
                       has(Property::kGraphemePrepend, before) ||
                       is_one_syllable(jamo_of(before), jamo_of(after)) ||
                       (is_emoji && before == kJoiner && has(Property::kPictographic, after)) ||
                       (is_flag(before) && is_flag(after) && flags % 2 == 1);
    if (!joins) return at;
    is_emoji = has(Property::kPictographic, after) || (is_emoji && is_extension(after));
    flags = is_flag(after) ? flags + 1 : 0;
  }
  return text.size();
}

}  // namespace edgespec
