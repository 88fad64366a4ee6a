// What an operator of self-attention does with queries and keys before they meet.
#pragma once

#include "ops/cached_call.h"
#include "ort/op.h"

namespace edgespec {

// Positions as RoPE: inputs cos and sin, perhaps norms of heads.
template <typename Schema>
class PositionsOf {
 public:
  PositionsOf(const KernelContext& context, Shapes& shapes)
      : cos_(context.input(Schema::in::cos, shapes).data),
        sin_(context.input(Schema::in::sin, shapes).data) {
    if constexpr (requires { Schema::in::q_norm; }) {
      q_norm_ = context.input(Schema::in::q_norm, shapes).data;
      k_norm_ = context.input(Schema::in::k_norm, shapes).data;
    }
  }

  void attend(CachedCallOf<Schema>& cached, float* out, const Threads& threads) const {
    cached.write_keys_rotated(cos_, sin_, q_norm_, k_norm_, threads);
    cached.attend(nullptr, out, threads);
  }

 private:
  const float *cos_, *sin_, *q_norm_ = nullptr, *k_norm_ = nullptr;
};

// Positions as a bias of scores: input bias.
template <typename Schema>
  requires requires { Schema::in::bias; }
class PositionsOf<Schema> {
 public:
  PositionsOf(const KernelContext& context, Shapes& shapes)
      : bias_(context.input(Schema::in::bias, shapes).data) {}

  void attend(CachedCallOf<Schema>& cached, float* out, const Threads& threads) const {
    cached.write_keys();
    cached.attend(bias_, out, threads);
  }

 private:
  const float* bias_;
};

}  // namespace edgespec
