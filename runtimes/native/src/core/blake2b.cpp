#include "core/blake2b.h"

#include <bit>
#include <cassert>

namespace edgespec {
namespace {

constexpr size_t kBlock = 128;
constexpr int kRounds = 12;
constexpr std::array<uint64_t, 8> kInitial = {
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179};
// Which words of the message a round takes, in pairs for each of its eight mixings.
constexpr uint8_t kOrder[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
// The words of the state that each mixing works on: columns, then diagonals.
constexpr uint8_t kMixings[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14}, {3, 7, 11, 15},
                                    {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13},  {3, 4, 9, 14}};

void mix_round(std::array<uint64_t, 16>& v, const std::array<uint64_t, 16>& message,
               const uint8_t* order) {
  for (const auto& [a, b, c, d] : kMixings) {
    v[a] += v[b] + message[*order++];
    v[d] = std::rotr(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 24);
    v[a] += v[b] + message[*order++];
    v[d] = std::rotr(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 63);
  }
}

}  // namespace

std::array<uint64_t, 8> blake2b(std::string_view text, unsigned digest_size) {
  assert(text.size() <= kBlock);
  std::array<uint64_t, 16> message{};
  for (size_t i = 0; i < text.size(); ++i) {
    message[i / 8] |= uint64_t(static_cast<unsigned char>(text[i])) << 8 * (i % 8);
  }
  std::array<uint64_t, 8> hash = kInitial;
  hash[0] ^= 0x01010000 ^ digest_size;  // no key, sequential mode
  std::array<uint64_t, 16> state;
  for (int i = 0; i < 8; ++i) {
    state[i] = hash[i];
    state[i + 8] = kInitial[i];
  }
  state[12] ^= text.size();  // bytes so far
  state[14] = ~state[14];    // the last block
  for (int round = 0; round < kRounds; ++round) mix_round(state, message, kOrder[round % 10]);
  for (int i = 0; i < 8; ++i) hash[i] ^= state[i] ^ state[i + 8];
  return hash;
}

}  // namespace edgespec
