#include "kernels/matmul_int8.h"

#include <algorithm>

#include "kernels/int8_panels.h"
#include "kernels/tiles/int8.h"

namespace edgespec {

PackedInt8::PackedInt8(const int8_t* weights, int64_t in, int64_t out, int64_t in_step,
                       int64_t out_step, const PackedStore& store)
    : in_(in), out_(out), panel_bytes_(rounded_up_quotient(in, kInt8Step) * kInt8StepBytes) {
  const auto fill = [&](std::byte* packed) {
    auto* bytes = reinterpret_cast<uint8_t*>(packed);
    for (int64_t first = 0; first < out; first += kInt8Outputs, bytes += panel_bytes_) {
      const int64_t count = std::min(kInt8Outputs, out - first);
      for (int64_t i = 0; i < in; ++i) {
        uint8_t* step = bytes + i / kInt8Step * kInt8StepBytes;
        const int8_t* source = weights + i * in_step + first * out_step;
        for (int64_t o = 0; o < count; ++o) {
          step[packed_int8_index(o, i % kInt8Step)] = uint8_t(source[o * out_step] + kWeightOffset);
        }
      }
    }
  };
  packed_ = store(rounded_up_quotient(out, kInt8Outputs) * panel_bytes_, fill);
}

void PackedInt8::multiply(const QuantizedRows& rows, const float* scale, const float* added,
                          float* y, const Threads& threads) const {
  if (rows.count == 0) return;
  const Int8Product product{out_, rows, Int8Inputs(rows), Corrections(rows), scale, added, y};
  const auto panel_at = [this](int64_t index) -> Int8Panel {
    return {index, packed_.get() + index * panel_bytes_, panel_bytes_};
  };
  const int64_t panels = rounded_up_quotient(out_, kInt8Outputs);
#ifdef EDGESPEC_TILES
  each_part(rows.count, rows.stride, panels, panel_bytes_, threads,
            [&](auto... part) { multiply_part(product, panel_at, part...); });
#else
  each_panel(panels, panel_bytes_, threads, [&](int64_t index) {
    by_parts<kMaxRows, MultiplyInt8Panel>(rows.count, product, panel_at(index));
  });
#endif
}

}  // namespace edgespec
