#include "kernels/matmul_bfloat16.h"

#include <bit>
#include <cmath>

#include "kernels/dots/bfloat16_product.h"
#include "kernels/panels.h"
#include "kernels/tiles/bfloat16_product.h"

namespace edgespec {
namespace {

#ifdef EDGESPEC_TILES
using Product = TiledProduct;
#else
using Product = ChainedProduct;
#endif

constexpr int64_t kPanel = kLanes * kParts;  // outputs
constexpr int64_t kBlockNumbers = kBFloat16Block * kPanel;

uint16_t without_least(BFloat16 weight) {
  const float wide = std::bit_cast<float>(uint32_t{weight.bits} << 16);
  return std::abs(wide) < kLeastWeight ? uint16_t{0} : weight.bits;
}

}  // namespace

PackedBFloat16::PackedBFloat16(const BFloat16* weights, int64_t in, int64_t out,
                               const PackedStore& store)
    : in_(in), out_(out) {
  const int64_t blocks = rounded_up_quotient(in, kBFloat16Block);
  const auto fill = [&](std::byte* packed) {
    for (int64_t o = 0; o < out; ++o) {
      auto* panel = reinterpret_cast<uint16_t*>(packed) + o / kPanel * blocks * kBlockNumbers;
      const BFloat16* row = weights + o * in;
      uint16_t* pairs = panel + o % kPanel * 2;
      for (int64_t i = 0; i < in; ++i) {
        pairs[i / 2 * (2 * kPanel) + i % 2] = without_least(row[i]);
      }
    }
  };
  const int64_t numbers = rounded_up_quotient(out, kPanel) * blocks * kBlockNumbers;
  packed_ = store(numbers * int64_t{sizeof(uint16_t)}, fill);
}

void PackedBFloat16::multiply(const BFloat16Rows& rows, const float* added, float* y,
                              const Threads& threads) const {
  if (rows.count == 0) return;
  Product{packed_.get(), out_, rows, added, y}.multiply(threads);
}

}  // namespace edgespec
