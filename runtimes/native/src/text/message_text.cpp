#include "text/message_text.h"

#include "core/error.h"
#include "core/shown.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace edgespec {
namespace {

// Python's spaces: Unicode's and four control characters.
bool is_space(char32_t c) { return has(Property::kSpace, c) || (c >= 0x1C && c <= 0x1F); }

}  // namespace

void check_text(std::string_view text, const std::string& what) {
  if (text.empty()) throw UsageError(what + " is empty; give some text");
  const size_t invalid = first_invalid(text);
  if (invalid == std::string_view::npos) return;
  throw UsageError(what + " is not Unicode text at byte " + shown(int64_t(invalid)) +
                   "; give it as UTF-8");
}

std::string trimmed(std::string_view text) {
  const std::u32string all = characters_of(text);
  std::u32string_view rest = all;
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  while (!rest.empty() && is_space(rest.back())) rest.remove_suffix(1);
  return utf8_of(rest);
}

}  // namespace edgespec
