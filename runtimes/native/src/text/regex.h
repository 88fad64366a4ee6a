// Regular expressions as Oniguruma matches them: the leftmost match, of the first alternative that
// leads to one.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/regex_parser.h"

namespace edgespec {

// Characters [begin, end) of a text.
struct Span {
  size_t begin, end;
};

class Regex {
 public:
  // Throws Error: it has syntax that is not known here.
  explicit Regex(std::u32string_view pattern);
  // A pattern that is this text.
  static Regex of_text(std::u32string_view text);

  // Every match in order; none begins before the end of the one before it.
  std::vector<Span> matches(std::u32string_view text) const;

 private:
  enum class Op {
    kSet,     // one character of set `a`
    kRepeat,  // as many of set `a` as there are, `least` to `most`, and fewer on the way back
    kSplit,   // goes on at `a`, and at `b` on the way back
    kJump,    // goes on at `a`
    kAtomic,  // runs the program at the next place up to its kMatch, then goes on at `a`
    kAhead,   // the program at the next place matches, or not, if `negated`; then at `a`
    kBehind,  // the same, `least` characters before
    kLineBegin,
    kLineEnd,
    kTextBegin,
    kTextEnd,
    kWordBorder,
    kMatch,
  };
  struct Step {
    Op op;
    int a = 0, b = 0, least = 0, most = 0;
    bool negated = false;
  };
  Regex() = default;
  void emit(const RegexNode& node);
  void emit_repeat(const RegexNode& node);
  void emit_look_behind(const RegexNode& node);
  // Runs a program of its own up to its match.
  void emit_inner(Step step, const RegexNode& node);
  size_t add(Step step);
  int end() const { return static_cast<int>(steps_.size()); }
  std::optional<size_t> run(int step, std::u32string_view text, size_t at) const;
  bool stands(const Step& step, int next, std::u32string_view text, size_t at) const;

  std::vector<Step> steps_;
  std::vector<CharacterSet> sets_;
};

}  // namespace edgespec
