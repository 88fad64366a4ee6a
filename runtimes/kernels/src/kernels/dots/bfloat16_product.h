// Products of bfloat16 rows with packed bfloat16 weights where there are no tiles: chain by chain.
#pragma once

#include <vector>

#include "kernels/bfloat16_rows.h"
#include "kernels/dots/bfloat16_chains.h"
#include "kernels/dots/dots.h"
#include "kernels/panel_sums.h"
#include "kernels/panels.h"

namespace edgespec {

// Weights [inputs of rows, out] in panels.
struct ChainedProduct {
  static constexpr int64_t kOutputs = kLanes * kParts;  // of a panel
  static constexpr int64_t kPairs = kPairsBytes * kParts, kBlock = kBlockPairs * kPairs;  // bytes
  static constexpr int64_t kStep = kBlockPairs / kChainSteps * kPairs;

  const std::byte* packed;
  int64_t out;
  const BFloat16Rows& rows;
  const float* added;
  float* y;

  void multiply(const Threads& threads) const {
    const Panels panels{*this, chain_inputs()};
    each_panel<kMaxRows, MultiplyPanel>(rows.count, rounded_up_quotient(out, kOutputs),
                                        rows.blocks * kBlock, panels, threads);
  }

 private:
  struct Panels {
    const ChainedProduct& of;
    const ChainInput* inputs;  // [rows, blocks, even and odd, kChainSteps]
  };

  // Rows as the steps of chains read them.
  const ChainInput* chain_inputs() const {
    thread_local std::vector<ChainInput> inputs;
    inputs.resize(static_cast<size_t>(rows.count * rows.blocks * 2 * kChainSteps));
    ChainInput* to = inputs.data();
    for (int64_t r = 0; r < rows.count; ++r) {
      for (int64_t b = 0; b < rows.blocks; ++b, to += 2 * kChainSteps) {
        to_chain_inputs(rows.block(r, b), to);
      }
    }
    return inputs.data();
  }

  // The sums of one chain of a block, for a panel and `count` rows.
  template <int count, int member>
  EDGESPEC_INLINE static void run_chain(const std::byte* block, const ChainInput* inputs,
                                        int64_t stride, PanelSums<count>& sums) {
    clear<count>(sums);
    inputs += member * kChainSteps;
#pragma GCC unroll 4
    for (int64_t step = 0; step < kChainSteps; ++step) {
      const std::byte* pairs = block + step * kStep;
      ChainWeights weights[kParts];
      for (int part = 0; part < kParts; ++part) {
        weights[part] = chain_weights<member>(pairs + part * kPairsBytes, kPairs);
      }
#pragma GCC unroll 16
      for (int r = 0; r < count; ++r) {
        for (int part = 0; part < kParts; ++part) {
          sums[r][part] = chain_step(weights[part], inputs[r * stride + step], sums[r][part]);
        }
      }
    }
  }

  // The products of one panel with `count` rows.
  template <int count>
  struct MultiplyPanel {
    static void run(int64_t first_row, const Panels& panels, const int64_t& panel) {
      const ChainedProduct& product = panels.of;
      PanelSums<count> sums, even, odd;
      clear<count>(sums);
      const int64_t blocks = product.rows.blocks, stride = blocks * 2 * kChainSteps;
      const std::byte* block = product.packed + panel * blocks * kBlock;
      const ChainInput* inputs = panels.inputs + first_row * stride;
      for (int64_t b = 0; b < blocks; ++b, block += kBlock, inputs += 2 * kChainSteps) {
        prefetch<count, kBlock>(block);
        run_chain<count, 0>(block, inputs, stride, even);
        run_chain<count, 1>(block, inputs, stride, odd);
#pragma GCC unroll 16
        for (int r = 0; r < count; ++r) {
          for (int part = 0; part < kParts; ++part) {
            sums[r][part] = sums[r][part] + (even[r][part] + odd[r][part]);
          }
        }
      }
      store_panel<count>(sums, first_row, panel, product.out, product.added, product.y);
    }
  };
};

}  // namespace edgespec
