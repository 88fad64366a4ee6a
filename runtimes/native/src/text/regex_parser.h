// A regular expression of Oniguruma's syntax as a tree: what the tokenizers of models use of it.
#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "text/character_set.h"

namespace edgespec {

struct RegexNode {
  enum class Kind {
    kSet,           // one character of `set`
    kSequence,      // all of `parts`
    kAlternatives,  // the first of `parts` that leads to a match
    kRepeat,        // parts[0], `least` to `most` times
    kAtomic,        // parts[0] without a way back
    kLookAhead,     // parts[0] follows, or not, if `negated`
    kLookBehind,    // parts[0] is before
    kLineBegin,
    kLineEnd,
    kTextBegin,
    kTextEnd,
    kWordBorder,
  };
  static constexpr int kUnbounded = std::numeric_limits<int>::max();

  Kind kind;
  std::vector<RegexNode> parts;
  CharacterSet set;
  int least = 1, most = 1;
  bool lazy = false;
  bool negated = false;

  // How many characters it matches at least and at most.
  int shortest() const;
  int longest() const;
};

// Throws Error: it has syntax that is not known here, named in one line.
RegexNode parsed_regex(std::u32string_view pattern);

}  // namespace edgespec
