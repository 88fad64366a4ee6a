#include "text/regex_parser.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/error.h"
#include "text/utf8.h"

namespace edgespec {
namespace {

using Kind = RegexNode::Kind;
constexpr int kMostRepeats = 1000;
constexpr int kMostDepth = 100;
constexpr char32_t kLastCharacter = 0x10FFFF;

bool is_letter(char32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

RegexNode node(Kind kind, std::vector<RegexNode> parts = {}) {
  return {kind, std::move(parts), {}};
}

RegexNode set_node(CharacterSet set) {
  RegexNode made = node(Kind::kSet);
  made.set = std::move(set);
  return made;
}

class Parser {
 public:
  explicit Parser(std::u32string_view pattern) : pattern_(pattern) {}

  RegexNode whole() {
    RegexNode made = alternatives();
    if (at_ < pattern_.size()) refuse("a bracket that closes nothing");
    return made;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("a regular expression with " + what + ": " + utf8_of(pattern_));
  }
  bool ended() const { return at_ >= pattern_.size(); }
  char32_t peek() const { return ended() ? 0 : pattern_[at_]; }
  bool begins(std::u32string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::u32string_view text) {
    if (!begins(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t next() {
    if (ended()) refuse("no end");
    return pattern_[at_++];
  }

  RegexNode alternatives() {
    if (++depth_ > kMostDepth) refuse("too many brackets");
    const bool ignored_case = ignore_case_;
    std::vector<RegexNode> all;
    do {
      all.push_back(sequence());
    } while (take(U"|"));
    ignore_case_ = ignored_case;
    --depth_;
    return all.size() == 1 ? std::move(all[0]) : node(Kind::kAlternatives, std::move(all));
  }

  RegexNode sequence() {
    std::vector<RegexNode> all;
    while (!ended() && peek() != '|' && peek() != ')') {
      if (std::optional<RegexNode> part = atom()) all.push_back(repeated(*std::move(part)));
    }
    return node(Kind::kSequence, std::move(all));
  }

  // None for a change of flags.
  std::optional<RegexNode> atom() {
    const char32_t c = next();
    switch (c) {
      case '(':
        return group();
      case '[':
        return set_node(finished(set()));
      case '.': {
        CharacterSet all;
        all.add_range('\n', '\n');
        all.negate();
        return set_node(finished(std::move(all)));
      }
      case '^':
        return node(Kind::kLineBegin);
      case '$':
        return node(Kind::kLineEnd);
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        refuse("a repeat of nothing");
      default:
        return literal(c);
    }
  }

  RegexNode literal(char32_t c) {
    CharacterSet one;
    add_literal(one, c, c);
    return set_node(finished(std::move(one)));
  }

  // A range; where case is ignored with the letters that fold to its own.
  void add_literal(CharacterSet& set, char32_t first, char32_t last) {
    set.add_range(first, last);
    if (!ignore_case_) return;
    if (last > 127) refuse("letters outside of ASCII whose case is ignored");
    for (char32_t c = first; c <= last; ++c) {
      if (!is_letter(c)) continue;
      set.add_range(c ^ 32, c ^ 32);
      if ((c | 32) == 's') set.add_range(0x17F, 0x17F);    // a long s
      if ((c | 32) == 'k') set.add_range(0x212A, 0x212A);  // Kelvin
    }
  }

  std::optional<RegexNode> group() {
    const bool ignored_case = ignore_case_;
    RegexNode made = node(Kind::kSequence);
    if (take(U"?=") || begins(U"?!")) {
      made = node(Kind::kLookAhead);
      made.negated = take(U"?!");
    } else if (take(U"?<=") || begins(U"?<!")) {
      made = node(Kind::kLookBehind);
      made.negated = take(U"?<!");
    } else if (take(U"?>")) {
      made = node(Kind::kAtomic);
    } else if (take(U"?")) {
      if (flags()) return std::nullopt;
    }
    made.parts.push_back(alternatives());
    ignore_case_ = ignored_case;
    if (!take(U")")) refuse("a bracket that is not closed");
    if (made.kind == Kind::kLookBehind) check_length(made.parts[0]);
    return made;
  }

  // Of (?i:…), (?-i:…) or (?:…). True for (?i), which holds up to the end of the group.
  bool flags() {
    bool on = true;
    for (char32_t c = next(); c != ':'; c = next()) {
      if (c == ')') return true;
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        ignore_case_ = on;
      } else {
        refuse("a flag or a name of a group");
      }
    }
    return false;
  }

  void check_length(const RegexNode& behind) {
    const bool one_length = behind.kind == Kind::kAlternatives
                                ? std::ranges::all_of(behind.parts,
                                                      [](const RegexNode& part) {
                                                        return part.shortest() == part.longest();
                                                      })
                                : behind.shortest() == behind.longest();
    if (!one_length) refuse("a look behind of several lengths");
  }

  RegexNode escape() {
    switch (const char32_t c = peek()) {
      case 'A':
      case 'z':
      case 'b':
      case 'B': {
        ++at_;
        RegexNode made = node(c == 'A'   ? Kind::kTextBegin
                              : c == 'z' ? Kind::kTextEnd
                                         : Kind::kWordBorder);
        made.negated = c == 'B';
        return made;
      }
      default: {
        CharacterSet one;
        if (const auto character = add_escape(one)) add_literal(one, *character, *character);
        return set_node(finished(std::move(one)));
      }
    }
  }

  // What follows a backslash: a class, which is added to the set, or a character.
  std::optional<char32_t> add_escape(CharacterSet& set) {
    const char32_t c = next();
    switch (c) {
      case 's':
      case 'S':
        set.add(Property::kSpace, c == 'S');
        return std::nullopt;
      case 'w':
      case 'W':
        set.add(Property::kWord, c == 'W');
        return std::nullopt;
      case 'd':
      case 'D':
        set.add(categories_named("Nd"), c == 'D');
        return std::nullopt;
      case 'p':
      case 'P':
        add_property(set, c == 'P');
        return std::nullopt;
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'x':
        return take(U"{") ? hexadecimal(8, U"}") : hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      default:
        if (is_letter(c) || is_digit(c)) refuse("\\" + utf8_of(std::u32string(1, c)));
        return c;
    }
  }

  void add_property(CharacterSet& set, bool negated) {
    if (!take(U"{")) refuse("\\p without a name in braces");
    if (take(U"^")) negated = !negated;
    std::string name;
    for (char32_t c = next(); c != '}'; c = next()) append_utf8(name, c);
    if (name == "Han") {
      set.add(Property::kHan, negated);
    } else if (const Categories found = categories_named(name); found != 0) {
      set.add(found, negated);
    } else {
      refuse("\\p{" + name + "}");
    }
  }

  char32_t hexadecimal(int most_digits, std::u32string_view end = U"") {
    uint64_t value = 0;
    int digits = 0;
    for (; digits < most_digits; ++digits) {
      const char32_t c = peek();
      if (is_digit(c)) {
        value = value << 4 | (c - '0');
      } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
        value = value << 4 | ((c | 32) - 'a' + 10);
      } else {
        break;
      }
      ++at_;
    }
    if (digits == 0 || value > kLastCharacter || !take(end)) refuse("a character that is none");
    return char32_t(value);
  }

  // After its opening bracket.
  CharacterSet set() {
    if (++depth_ > kMostDepth) refuse("too many brackets");
    CharacterSet made, before;
    bool has_before = false;
    const bool negated = take(U"^");
    for (bool first = true; first || peek() != ']'; first = false) {
      if (begins(U"[:")) refuse("a class in POSIX's form");
      if (take(U"[")) {
        made.add(set());
      } else if (take(U"&&")) {
        if (has_before) made.keep(std::move(before));
        before = std::move(made);
        made = {};
        has_before = true;
      } else {
        add_member(made);
      }
    }
    ++at_;
    --depth_;
    if (has_before) made.keep(std::move(before));
    if (negated) made.negate();
    return made;
  }

  // A class, a character or a range of characters.
  void add_member(CharacterSet& set) {
    const std::optional<char32_t> first = member(set);
    const bool is_range = begins(U"-") && !begins(U"-]") && !begins(U"-[") && !begins(U"-&&");
    if (!first) return;
    if (!is_range) return add_literal(set, *first, *first);
    ++at_;
    const std::optional<char32_t> last = member(set);
    if (!last || *last < *first) refuse("a range without an end");
    add_literal(set, *first, *last);
  }

  std::optional<char32_t> member(CharacterSet& set) {
    const char32_t c = next();
    return c == '\\' ? add_escape(set) : std::optional(c);
  }

  static CharacterSet finished(CharacterSet set) {
    set.finish();
    return set;
  }

  RegexNode repeated(RegexNode part) {
    while (true) {
      int least = 0, most = RegexNode::kUnbounded;
      const bool is_interval = peek() == '{';
      if (is_interval) {
        if (!interval(least, most)) return part;
      } else if (take(U"?")) {
        most = 1;
      } else if (take(U"+")) {
        least = 1;
      } else if (!take(U"*")) {
        return part;
      }
      if (part.shortest() == 0) refuse("a repeat of what may be nothing");
      RegexNode made = node(Kind::kRepeat);
      made.parts.push_back(std::move(part));
      made.least = least;
      made.most = most;
      if (is_interval && least == most && peek() == '?') refuse("{n}?");
      made.lazy = take(U"?");
      // After braces, + repeats the repeat, as in Ruby.
      if (!made.lazy && !is_interval && take(U"+")) {
        std::vector<RegexNode> parts;
        parts.push_back(std::move(made));
        made = node(Kind::kAtomic, std::move(parts));
      }
      part = std::move(made);
    }
  }

  // {n}, {n,} or {n,m}. False if it is none, and so a brace.
  bool interval(int& least, int& most) {
    const size_t begin = at_++;
    const std::optional<int> first = number();
    const bool is_range = take(U",");
    const std::optional<int> last = is_range ? number() : first;
    if (!take(U"}") || (!first && !last)) {
      at_ = begin;
      refuse("a brace that is no repeat");
    }
    least = first.value_or(0);
    most = last.value_or(RegexNode::kUnbounded);
    if (least > most) refuse("a repeat whose least is above its most");
    return true;
  }

  std::optional<int> number() {
    if (!is_digit(peek())) return std::nullopt;
    int value = 0;
    while (is_digit(peek())) {
      value = value * 10 + int(next() - '0');
      if (value > kMostRepeats) refuse("a repeat of more than 1000");
    }
    return value;
  }

  std::u32string_view pattern_;
  size_t at_ = 0;
  int depth_ = 0;
  bool ignore_case_ = false;
};

}  // namespace

RegexNode parsed_regex(std::u32string_view pattern) { return Parser(pattern).whole(); }

}  // namespace edgespec
