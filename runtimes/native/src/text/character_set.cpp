#include "text/character_set.h"

#include <algorithm>

namespace edgespec {

void CharacterSet::finish() {
  for (CharacterSet& inner : inner_) inner.finish();
  for (CharacterSet& other : kept_) other.finish();
  for (char32_t character = 0; character < kAscii; ++character) {
    ascii_[character] = computed(character);
  }
}

bool CharacterSet::computed(char32_t character) const {
  const auto holds = [&](const auto& set) { return set.has(character); };
  const bool found =
      std::ranges::any_of(ranges_,
                          [&](const Range& range) {
                            return range.first <= character && character <= range.last;
                          }) ||
      (categories_ != 0 && (categories_ & category_of(character)) != 0) ||
      std::ranges::any_of(properties_,
                          [&](const Named& named) {
                            return edgespec::has(named.property, character) != named.negated;
                          }) ||
      std::ranges::any_of(inner_, holds);
  return (found && std::ranges::all_of(kept_, holds)) != negated_;
}

}  // namespace edgespec
