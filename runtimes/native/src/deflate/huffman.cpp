#include "deflate/huffman.h"

#include <algorithm>
#include <utility>

namespace edgespec {

HuffmanLengths::HuffmanLengths(std::vector<int64_t> counts, int most_bits)
    : counts_(std::move(counts)), heap_{-1}, symbols_(int(counts_.size())) {
  counts_.resize(2 * symbols_);
  depth_.resize(2 * symbols_);
  parent_.resize(2 * symbols_);
  bits_.resize(2 * symbols_);
  add_symbols();
  build();
  limit(most_bits);
  bits_.resize(symbols_);
}

void HuffmanLengths::add_symbols() {
  for (int symbol = 0; symbol < symbols_; ++symbol) {
    if (counts_[symbol] == 0) continue;
    heap_.push_back(symbol);
    last_ = symbol;
  }
  while (heap_.size() < 3) {  // a code has at least two symbols
    const int symbol = last_ < 2 ? ++last_ : 0;
    counts_[symbol] = 1;
    heap_.push_back(symbol);
  }
  for (size_t at = (heap_.size() - 1) / 2; at > 0; --at) sift_down(at);
}

void HuffmanLengths::build() {
  for (int node = symbols_; heap_.size() > 2; ++node) {
    const int rarest = heap_[1];
    heap_[1] = heap_.back();
    heap_.pop_back();
    sift_down(1);
    const int next = heap_[1];
    order_.push_back(rarest);
    order_.push_back(next);
    counts_[node] = counts_[rarest] + counts_[next];
    depth_[node] = std::max(depth_[rarest], depth_[next]) + 1;
    parent_[rarest] = parent_[next] = node;
    heap_[1] = node;
    sift_down(1);
  }
}

// A code that is too long ends at `most_bits`; shorter ones become longer to make room.
void HuffmanLengths::limit(int most_bits) {
  std::vector<int> with(most_bits + 1);  // how many symbols have so many bits
  int too_long = 0;
  for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
    const int bits = bits_[parent_[*node]] + 1;
    too_long += bits > most_bits ? 1 : 0;
    bits_[*node] = std::min(bits, most_bits);
    if (*node < symbols_) ++with[bits_[*node]];
  }
  if (too_long == 0) return;
  for (; too_long > 0; too_long -= 2) {
    int bits = most_bits - 1;
    while (with[bits] == 0) --bits;
    --with[bits];
    with[bits + 1] += 2;
    --with[most_bits];
  }
  auto node = order_.begin();
  for (int bits = most_bits; bits > 0; --bits) {
    for (int left = with[bits]; left > 0; ++node) {
      if (*node >= symbols_) continue;
      bits_[*node] = bits;
      --left;
    }
  }
}

bool HuffmanLengths::before(int first, int second) const {
  return counts_[first] < counts_[second] ||
         (counts_[first] == counts_[second] && depth_[first] <= depth_[second]);
}

void HuffmanLengths::sift_down(size_t at) {
  const int node = heap_[at];
  for (size_t child = 2 * at; child < heap_.size(); at = child, child *= 2) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (before(node, heap_[child])) break;
    heap_[at] = heap_[child];
  }
  heap_[at] = node;
}

}  // namespace edgespec
