// The matches that zlib finds at its usual level, 6 (Deutsch 1996, RFC 1951; zlib's deflate.c).
//
// How many bytes zlib makes of a text is Whisper's measure of repetition. Other compressors give
// other numbers, so the search is zlib's to the last choice.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace edgespec {

// A byte as it is, or a copy of `length` bytes that came `distance` bytes before.
struct DeflateSymbol {
  int length = 1;
  int distance = 0;  // 0: a byte as it is
  unsigned char byte = 0;
};

// The symbols of a text of less than 64 KB, which must outlive it.
class DeflateMatches {
 public:
  explicit DeflateMatches(std::string_view text);

  std::vector<DeflateSymbol> symbols();

 private:
  struct Match {
    int start = 0, length = 0;
  };

  // Adds a position to the chain of those with the same hash; returns the one before, 0 if none.
  int inserted(int position);
  // The longest match from `candidate` on in its chain; `least`: of the position before.
  Match longest(int position, int candidate, const Match& least) const;
  // How many bytes are equal from two positions on.
  int equal_bytes(int first, int second) const;
  int size() const { return int(text_.size()); }
  int left(int position) const { return size() - position; }

  std::string_view text_;
  std::vector<int> head_, previous_;
};

}  // namespace edgespec
