#include "kernels/attention/attention.h"

#include <cstdint>
#include <vector>

#include "kernels/attention/block.h"
#include "kernels/attention/call.h"
#include "kernels/attention/partials.h"
#include "kernels/attention/sizes.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {
namespace {

constexpr int64_t kMinTasks = 12;  // tasks that keep the threads of a small machine busy

// Memory that a thread keeps from call to call, aligned to cache lines.
class Scratch {
 public:
  float* floats(int64_t count) {
    const auto lines = static_cast<size_t>((count + kLanes - 1) / kLanes);
    if (lines_.size() < lines) lines_.resize(lines);
    return reinterpret_cast<float*>(lines_.data());
  }

 private:
  struct alignas(64) Line {
    float numbers[kLanes];
  };
  std::vector<Line> lines_ = std::vector<Line>(1);
};

// A thread's working memory for one block: its queries, a tile of keys or values, scores.
struct Workspace {
  float* queries;
  float* transposed;
  float* wide;
  float* scores;

  template <typename Number>
  Workspace(const AttentionCall<Number>& call, const Block<Number>& block) {
    thread_local Scratch scratch;
    queries = scratch.floats(block.count() * (call.width + kChunk) +
                             call.width * (kKeyTile + kValueTile));
    transposed = queries + block.count() * call.width;
    wide = transposed + call.width * kKeyTile;
    scores = wide + call.width * kValueTile;
    block.load_queries(queries);
  }
};

// With many blocks, each is one task over all of its keys. The last blocks see most keys and come
// first.
template <typename Number>
void attend_block(const AttentionCall<Number>& call, int64_t task) {
  const int64_t kv_heads = call.shape.kv_heads;
  const Block<Number> block(call, task % kv_heads, call.blocks() - 1 - task / kv_heads);
  const Workspace work(call, block);
  thread_local Scratch scratch;
  const int64_t chunks = block.chunks();
  const Partials parts(scratch.floats(Partials::floats(block.count(), chunks, call.width)),
                       block.count(), chunks, call.width);
  for (int64_t chunk = block.first_chunk(); chunk < chunks; ++chunk) {
    block.attend_chunk(chunk, work.queries, work.transposed, work.wide, work.scores, parts);
  }
  block.finish(parts);
}

// With few blocks, each chunk of keys is a task.
template <typename Number>
void attend_chunks(const AttentionCall<Number>& call, int64_t cycles, const Threads& threads) {
  thread_local Scratch scratch;
  const int64_t chunks = call.chunks(), blocks = call.blocks() * call.shape.kv_heads;
  const int64_t queries = call.rows_per_block * call.group;
  const int64_t floats = Partials::floats(queries, chunks, call.width);
  float* memory = scratch.floats(blocks * floats);
  const auto block_at = [&](int64_t i) {
    return Block<Number>(call, i % call.shape.kv_heads, i / call.shape.kv_heads);
  };
  const auto partials_at = [&](int64_t i) {
    return Partials(memory + i * floats, queries, chunks, call.width);
  };
  threads.each(blocks * chunks, cycles, [&](int64_t task) {
    const int64_t i = task / chunks, chunk = task % chunks;
    const Block<Number> block = block_at(i);
    if (chunk < block.first_chunk() || chunk >= block.chunks()) return;
    const Workspace work(call, block);
    block.attend_chunk(chunk, work.queries, work.transposed, work.wide, work.scores,
                       partials_at(i));
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

}  // namespace

template <typename Number>
void attend(const AttentionShape& shape, const float* queries, int64_t query_stride,
            const CacheRows<Number>& keys, const CacheRows<Number>& values, const float* bias,
            float* out, const Threads& threads) {
  if (shape.rows == 0) return;
  const AttentionCall<Number> call(shape, queries, query_stride, keys, values, bias, out);
  const int64_t blocks = call.blocks() * shape.kv_heads;
  if (call.chunks() > 1 && blocks < kMinTasks) {
    attend_chunks(call, cycles(call), threads);
  } else {
    threads.each(blocks, cycles(call), [&](int64_t task) { attend_block(call, task); });
  }
}

template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<float>&,
                     const CacheRows<float>&, const float*, float*, const Threads&);
template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<Float16>&,
                     const CacheRows<Float16>&, const float*, float*, const Threads&);
template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<int8_t>&,
                     const CacheRows<int8_t>&, const float*, float*, const Threads&);

}  // namespace edgespec
