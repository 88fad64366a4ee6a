#include "deflate/deflated_size.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "deflate/huffman.h"
#include "deflate/matches.h"

namespace edgespec {
namespace {

constexpr int kEndOfBlock = 256, kFirstLength = 257;
constexpr int kBytesAndLengths = 286, kDistances = 30, kLengthsOfCodes = 19;
constexpr int kMostBits = 15, kMostBitsOfLengths = 7;
constexpr int kLongestMatch = 258;
constexpr int64_t kMostSymbols = 16'383;  // of a block
constexpr int64_t kBlockBits = 3;         // before each block
constexpr int64_t kAroundBytes = 6;       // zlib's own, and the checksum
constexpr int64_t kStoredBytes = 4;       // before a block that is stored as it is

// The order in which the bits of the codes of lengths are written.
constexpr std::array kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

// A code of a group of numbers, and how many bits follow it.
struct Code {
  int code, more;
};

// Numbers from 0 on in groups of 1, 2, 4, …; `halves` groups of each size have the same bits.
Code code_of(int number, int halves) {
  const int bits = std::bit_width(unsigned(number) / unsigned(halves));
  if (bits < 2) return {number, 0};
  const int more = bits - 1;
  return {halves * more + (number >> more), more};
}

Code length_code(int length) {
  if (length == kLongestMatch) return {kBytesAndLengths - 1, 0};
  const auto [code, more] = code_of(length - 3, 4);
  return {kFirstLength + code, more};
}

Code distance_code(int distance) { return code_of(distance - 1, 2); }

int fixed_bits(int symbol) { return symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8; }

// The lengths of two codes as they are written: lengths, 16 to repeat one, 17 and 18 for zeros.
void count_lengths(const HuffmanLengths& code, std::vector<int64_t>& counts) {
  const std::vector<int>& bits = code.bits();
  for (int at = 0, last = -1; at <= code.last();) {
    const int length = bits[at];
    // The first of a run is written as it is, unless it is that of the run before.
    int most = length == 0 ? 138 : length == last ? 6 : 7;
    const int least = length == 0 || length == last ? 3 : 4;
    int end = at;
    while (end <= code.last() && bits[end] == length && end - at < most) ++end;
    const int run = end - at;
    if (run < least) {
      counts[length] += run;
    } else if (length != 0) {
      if (length != last) ++counts[length];
      ++counts[16];
    } else {
      ++counts[run <= 10 ? 17 : 18];
    }
    last = length;
    at = end;
  }
}

class Block {
 public:
  Block() : symbols_(kBytesAndLengths), distances_(kDistances) { symbols_[kEndOfBlock] = 1; }

  void add(const DeflateSymbol& symbol) {
    bytes_ += symbol.length;
    if (symbol.distance == 0) {
      ++symbols_[symbol.byte];
      return;
    }
    const auto [length, more] = length_code(symbol.length);
    const auto [distance, after] = distance_code(symbol.distance);
    ++symbols_[length];
    ++distances_[distance];
    more_ += more + after;
  }

  // Adds the block in the form that zlib takes to what was written before.
  int64_t after(int64_t bits) const {
    const int64_t usual = std::min(fixed(), dynamic());
    if (bytes_ + kStoredBytes > bytes_of(kBlockBits + usual)) return bits + kBlockBits + usual;
    return 8 * (bytes_of(bits + kBlockBits) + kStoredBytes + bytes_);
  }

  static int64_t bytes_of(int64_t bits) { return (bits + 7) / 8; }

 private:
  // The bits of the symbols with the format's own codes.
  int64_t fixed() const {
    int64_t bits = more_;
    for (int i = 0; i < kBytesAndLengths; ++i) bits += symbols_[i] * fixed_bits(i);
    for (const int64_t count : distances_) bits += count * 5;
    return bits;
  }

  // The same with codes of the block's own, which are written before it.
  int64_t dynamic() const {
    const HuffmanLengths symbols(symbols_, kMostBits), distances(distances_, kMostBits);
    std::vector<int64_t> counts(kLengthsOfCodes);
    count_lengths(symbols, counts);
    count_lengths(distances, counts);
    const HuffmanLengths lengths(counts, kMostBitsOfLengths);
    int64_t written = kLengthsOfCodes;
    while (written > 4 && lengths.bits()[kOrder[written - 1]] == 0) --written;
    const int64_t more = 2 * counts[16] + 3 * counts[17] + 7 * counts[18];
    return 14 + 3 * written + total(counts, lengths) + more + total(symbols_, symbols) +
           total(distances_, distances) + more_;
  }

  static int64_t total(const std::vector<int64_t>& counts, const HuffmanLengths& code) {
    int64_t bits = 0;
    for (size_t i = 0; i < counts.size(); ++i) bits += counts[i] * code.bits()[i];
    return bits;
  }

  std::vector<int64_t> symbols_, distances_;
  int64_t bytes_ = 0;
  int64_t more_ = 0;  // bits after codes of lengths and distances
};

}  // namespace

int64_t deflated_size(std::string_view text) {
  const std::vector<DeflateSymbol> symbols = DeflateMatches(text).symbols();
  int64_t bits = 0;
  for (int64_t first = 0; first == 0 || first < std::ssize(symbols); first += kMostSymbols) {
    Block block;
    const int64_t end = std::min(first + kMostSymbols, int64_t(std::ssize(symbols)));
    for (int64_t i = first; i < end; ++i) block.add(symbols[i]);
    bits = block.after(bits);
  }
  return kAroundBytes + Block::bytes_of(bits);
}

}  // namespace edgespec
