#include "deflate/matches.h"

#include <algorithm>

namespace edgespec {
namespace {

constexpr int kLeast = 3, kMost = 258;  // bytes of a match
constexpr int kFarthest = 32'768 - (kMost + kLeast + 1);
constexpr int kTooFar = 4096;  // for a match of three bytes
// Of level 6: from these lengths on, fewer candidates are looked at, the next position is not, and
// a match is taken at once.
constexpr int kGood = 8, kLazy = 16, kNice = 128;
constexpr int kCandidates = 128;
constexpr int kHashBits = 15, kHashShift = 5;

}  // namespace

DeflateMatches::DeflateMatches(std::string_view text)
    : text_(text), head_(1 << kHashBits), previous_(text.size()) {}

std::vector<DeflateSymbol> DeflateMatches::symbols() {
  std::vector<DeflateSymbol> symbols;
  const auto literal = [&](int position) {
    symbols.push_back({1, 0, static_cast<unsigned char>(text_[position])});
  };
  Match found{0, kLeast - 1};
  bool is_waiting = false;  // the byte before, for a longer match here
  int at = 0;
  while (at < size()) {
    const int candidate = inserted(at);
    const Match before = found;
    found.length = kLeast - 1;
    if (candidate > 0 && before.length < kLazy && at - candidate <= kFarthest) {
      found = longest(at, candidate, before);
      const bool too_far = found.length == kLeast && at - found.start > kTooFar;
      if (too_far) found.length = kLeast - 1;
    }
    if (before.length >= kLeast && found.length <= before.length) {
      symbols.push_back({before.length, at - 1 - before.start, 0});
      const int end = at - 1 + before.length;
      while (++at < end) inserted(at);
      is_waiting = false;
      found.length = kLeast - 1;
      continue;
    }
    if (is_waiting) literal(at - 1);
    is_waiting = true;
    ++at;
  }
  if (is_waiting) literal(size() - 1);
  return symbols;
}

int DeflateMatches::inserted(int position) {
  if (left(position) < kLeast) return 0;
  unsigned hash = 0;
  for (int i = 0; i < kLeast; ++i) {
    hash = (hash << kHashShift ^ static_cast<unsigned char>(text_[position + i])) &
           ((1U << kHashBits) - 1);
  }
  previous_[position] = head_[hash];
  head_[hash] = position;
  return previous_[position];
}

DeflateMatches::Match DeflateMatches::longest(int position, int candidate,
                                              const Match& least) const {
  const int farthest = std::max(0, position - kFarthest);
  const int nice = std::min(kNice, left(position));
  int tries = least.length >= kGood ? kCandidates / 4 : kCandidates;
  Match best = least;
  do {
    const int length = equal_bytes(candidate, position);
    if (length <= best.length) continue;
    best = {candidate, length};
    if (length >= nice) break;
  } while ((candidate = previous_[candidate]) > farthest && --tries > 0);
  best.length = std::min(best.length, left(position));
  return best;
}

int DeflateMatches::equal_bytes(int first, int second) const {
  const std::string_view there = text_.substr(first), here = text_.substr(second, kMost);
  return int(std::ranges::mismatch(here, there).in1 - here.begin());
}

}  // namespace edgespec
