#include "ort/shared_call.h"

#include <algorithm>

namespace edgespec {

SharedCall::SharedCall(CallMemory& memory, const CallShape& shape, bool has_sources)
    : Call(memory, shape), sources_(has_sources ? 2 * shape.rows : 0) {
  if (has_sources) take("sources", sources_, {shape.rows, 2});
}

void SharedCall::set_rows(std::span<const SharedRow> rows, const Source& sources) {
  int64_t most = 0;  // positions of the longest sequence
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [token, layout, part] = rows[i];
    tokens_[i] = token;
    set_layout(int64_t(i), layout);
    if (!sources_.empty()) std::ranges::copy(std::array{part.start, part.count}, &sources_[2 * i]);
    most = std::max(most, layout.position + 1);
  }
  past_length_[0] = std::max<int64_t>(0, most - std::ssize(rows));
  set_source(sources);
}

}  // namespace edgespec
