#include "ort/layout.h"

namespace edgespec {

std::vector<LaidOut> laid_out(Candidates candidates, int64_t count, int64_t start, int64_t length) {
  std::vector<LaidOut> all;
  for (const auto& [parent, token] : candidates) {
    const int64_t index = start + length + count + std::ssize(all);
    all.push_back({token, {start, length + parent + 1, index}});
  }
  return all;
}

}  // namespace edgespec
