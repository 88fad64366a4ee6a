// The Huffman codes that zlib makes (zlib's trees.c): their lengths, without the codes themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgespec {

// The bits of each symbol's code; 0 of symbols that do not occur.
//
// Codes of the same cost differ in how many bits their lengths take, so ties are zlib's.
class HuffmanLengths {
 public:
  // `counts`: how often each symbol occurs; where fewer than two do, others count as one.
  HuffmanLengths(std::vector<int64_t> counts, int most_bits);

  const std::vector<int>& bits() const { return bits_; }
  // The last symbol that has a code.
  int last() const { return last_; }

 private:
  void add_symbols();
  void build();
  void limit(int most_bits);
  // Whether a node comes before another: it occurs less often, or is as frequent and not deeper.
  bool before(int first, int second) const;
  void sift_down(size_t at);

  std::vector<int64_t> counts_;  // of symbols, then of inner nodes
  std::vector<int> depth_, parent_, bits_;
  std::vector<int> heap_;   // from 1 on; the rarest first
  std::vector<int> order_;  // nodes as they were joined
  int symbols_, last_ = -1;
};

}  // namespace edgespec
