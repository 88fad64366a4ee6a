#include "artifact/sha256.h"

#include <bit>
#include <cstdio>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "core/paths.h"

namespace edgespec {
namespace {

constexpr size_t kBlock = 64;
constexpr std::array<uint32_t, 64> kConstants = {
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
    0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
    0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
    0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
    0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2};

uint32_t big_endian(const unsigned char* bytes) {
  return uint32_t(bytes[0]) << 24 | uint32_t(bytes[1]) << 16 | uint32_t(bytes[2]) << 8 | bytes[3];
}

}  // namespace

void Sha256::add(std::string_view bytes) {
  for (const char byte : bytes) {
    block_[bytes_++ % kBlock] = static_cast<unsigned char>(byte);
    if (bytes_ % kBlock == 0) mix(block_.data());
  }
}

std::string Sha256::hex() {
  const uint64_t bits = 8 * bytes_;
  add(std::string_view("\x80", 1));
  while (bytes_ % kBlock != kBlock - 8) add(std::string_view("\0", 1));
  for (int shift = 56; shift >= 0; shift -= 8) {
    const char byte = static_cast<char>(bits >> shift);
    add({&byte, 1});
  }
  std::string digits;
  for (const uint32_t word : state_) {
    std::array<char, 9> eight;
    std::snprintf(eight.data(), eight.size(), "%08x", word);
    digits += eight.data();
  }
  return digits;
}

void Sha256::mix(const unsigned char* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t early = w[i - 15], late = w[i - 2];
    const uint32_t s0 = std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3;
    const uint32_t s1 = std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t first = h + s1 + ((e & f) ^ (~e & g)) + kConstants[i] + w[i];
    const uint32_t second = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
}

std::string sha256(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

std::string sha256_of(const std::filesystem::path& file) {
  std::ifstream content(file, std::ios::binary);
  std::vector<char> part(1 << 16);
  Sha256 digest;
  while (content) {
    content.read(part.data(), std::ssize(part));
    digest.add({part.data(), static_cast<size_t>(content.gcount())});
  }
  if (!content.eof()) throw Error(name_of(file) + " cannot be read; copy or export the pair again");
  return digest.hex();
}

}  // namespace edgespec
