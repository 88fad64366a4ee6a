#include "ort/prefill.h"

#include <algorithm>

namespace edgespec {
namespace {

// A longer prompt is split, which bounds the memory for attention scores.
constexpr int64_t kMaxPrefillRows = 256;

}  // namespace

std::vector<LongCall> plan_prefill(int64_t count, const std::vector<Range>& answers,
                                   bool short_answers) {
  std::vector<int64_t> borders = {0};
  for (const auto& [begin, end] : answers) borders.insert(borders.end(), {begin, end});
  borders.push_back(count);
  std::vector<LongCall> plan(count, kShortCall);
  for (size_t index = 0; index + 1 < borders.size(); ++index) {
    const bool is_answer = index % 2 == 1;
    if (is_answer && short_answers) continue;
    const int64_t end = std::min(borders[index + 1], count);
    for (int64_t first = borders[index]; first < end; first += kMaxPrefillRows) {
      const LongCall call = {first, std::min(first + kMaxPrefillRows, end), is_answer};
      std::fill(plan.begin() + first, plan.begin() + call.end, call);
    }
  }
  return plan;
}

int64_t reusable_length(const std::vector<CachedPosition>& cached,
                        const std::vector<CachedPosition>& wanted) {
  const auto [first, _] = std::ranges::mismatch(cached, wanted);
  const int64_t count = first - cached.begin();
  if (count == 0) return 0;
  const LongCall& last = wanted[count - 1].call;
  return last.end > count ? last.begin : count;
}

int64_t call_end(int64_t begin, const std::vector<LongCall>& plan, int64_t max_short_rows) {
  if (plan[begin] != kShortCall) return plan[begin].end;
  int64_t end = begin;
  const int64_t most = std::min<int64_t>(std::ssize(plan), begin + max_short_rows);
  while (end < most && plan[end] == kShortCall) ++end;
  return end;
}

}  // namespace edgespec
