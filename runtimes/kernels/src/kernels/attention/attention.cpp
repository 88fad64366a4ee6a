#include "kernels/attention/attention.h"

#include <cstdint>

#include "kernels/attention/block.h"
#include "kernels/attention/call.h"
#include "kernels/attention/partials.h"
#include "kernels/attention/rounded_block.h"
#include "kernels/attention/scratch_lines.h"
#include "kernels/attention/sizes.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {
namespace {

constexpr int64_t kMinTasks = 12;  // tasks that keep the threads of a small machine busy

// With many blocks, each is one task over all of its keys. The last blocks see most keys and come
// first.
template <typename Block, typename Number>
void attend_block(const AttentionCall<Number>& call, int64_t task) {
  const int64_t kv_heads = call.shape.kv_heads;
  const Block block(call, task % kv_heads, call.blocks() - 1 - task / kv_heads);
  const typename Block::Work work(call, block);
  thread_local ScratchLines scratch;
  const int64_t chunks = block.chunks();
  const Partials parts(scratch.floats(Partials::floats(block.count(), chunks, call.width)),
                       block.count(), chunks, call.width);
  for (int64_t chunk = block.first_chunk(); chunk < chunks; ++chunk) {
    block.attend_chunk(chunk, work, parts);
  }
  block.finish(parts);
}

// With few blocks, each chunk of keys is a task.
template <typename Block, typename Number>
void attend_chunks(const AttentionCall<Number>& call, int64_t cycles, const Threads& threads) {
  thread_local ScratchLines scratch;
  const int64_t chunks = call.chunks(), blocks = call.blocks() * call.shape.kv_heads;
  const int64_t queries = call.rows_per_block * call.group;
  const int64_t floats = Partials::floats(queries, chunks, call.width);
  float* memory = scratch.floats(blocks * floats);
  const auto block_at = [&](int64_t i) {
    return Block(call, i % call.shape.kv_heads, i / call.shape.kv_heads);
  };
  const auto partials_at = [&](int64_t i) {
    return Partials(memory + i * floats, queries, chunks, call.width);
  };
  threads.each(blocks * chunks, cycles, [&](int64_t task) {
    const int64_t i = task / chunks, chunk = task % chunks;
    const Block block = block_at(i);
    if (chunk < block.first_chunk() || chunk >= block.chunks()) return;
    const typename Block::Work work(call, block);
    block.attend_chunk(chunk, work, partials_at(i));
  });
  // About one cycle for each register.
  threads.each(blocks, blocks * floats / kLanes,
               [&](int64_t i) { block_at(i).finish(partials_at(i)); });
}

// An estimate in cycles: reading keys and values, and two products with 16 multiplications a cycle.
template <typename Number>
int64_t cycles(const AttentionCall<Number>& call) {
  int64_t sum = 0;
  for (const Span& span : call.spans) {
    sum += (call.seen(span) - call.hidden(span)) * (12 + span.count * call.group);
  }
  return call.shape.kv_heads * call.shape.size * sum / 8;
}

template <typename Block, typename Number>
void attend_by(const AttentionCall<Number>& call, const Threads& threads) {
  const int64_t blocks = call.blocks() * call.shape.kv_heads;
  if (call.chunks() > 1 && blocks < kMinTasks) {
    attend_chunks<Block>(call, cycles(call), threads);
  } else {
    threads.each(blocks, cycles(call), [&](int64_t task) { attend_block<Block>(call, task); });
  }
}

}  // namespace

template <typename Number>
void attend(const AttentionShape& shape, const float* queries, int64_t query_stride,
            const CacheRows<Number>& keys, const CacheRows<Number>& values, const float* bias,
            float* out, const Threads& threads) {
  if (shape.rows == 0) return;
  const AttentionCall<Number> call(shape, queries, query_stride, keys, values, bias, out);
  if (shape.arithmetic == Arithmetic::kBFloat16) {
    attend_by<RoundedBlock<Number>>(call, threads);
  } else {
    attend_by<Block<Number>>(call, threads);
  }
}

template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<float>&,
                     const CacheRows<float>&, const float*, float*, const Threads&);
template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<Float16>&,
                     const CacheRows<Float16>&, const float*, float*, const Threads&);
template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<int8_t>&,
                     const CacheRows<int8_t>&, const float*, float*, const Threads&);

}  // namespace edgespec
