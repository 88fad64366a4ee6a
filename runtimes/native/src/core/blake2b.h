// BLAKE2b (RFC 7693) of a short text: what seeds become random numbers by.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace edgespec {

// The digest as eight little-endian words, of which those of `digest_size` bytes count.
// `text` has at most 128 bytes: one block.
std::array<uint64_t, 8> blake2b(std::string_view text, unsigned digest_size);

}  // namespace edgespec
