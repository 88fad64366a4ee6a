// A class of characters of a regular expression: [^\s\p{L}a-z&&[^q]].
#pragma once

#include <bitset>
#include <memory>
#include <string>
#include <vector>

#include "text/unicode.h"

namespace edgespec {

class CharacterSet {
 public:
  void add_range(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add(Categories categories, bool negated) {
    categories_ |= negated ? ~categories : categories;
  }
  void add(Property property, bool negated) { properties_.push_back({property, negated}); }
  void add(CharacterSet inner) { inner_.push_back(std::move(inner)); }
  // Only what is in the other one, too.
  void keep(CharacterSet other) { kept_.push_back(std::move(other)); }
  void negate() { negated_ = !negated_; }
  // Once it is whole: looks up ASCII ahead.
  void finish();

  bool has(char32_t character) const {
    return character < kAscii ? ascii_[character] : computed(character);
  }

 private:
  static constexpr char32_t kAscii = 128;
  struct Range {
    char32_t first, last;
  };
  struct Named {
    Property property;
    bool negated;
  };
  bool computed(char32_t character) const;

  std::vector<Range> ranges_;
  Categories categories_ = 0;
  std::vector<Named> properties_;
  std::vector<CharacterSet> inner_, kept_;
  bool negated_ = false;
  std::bitset<kAscii> ascii_;
};

}  // namespace edgespec
