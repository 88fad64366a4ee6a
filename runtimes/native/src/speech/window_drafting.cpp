#include "speech/window_drafting.h"

namespace edgespec {
namespace {

constexpr int64_t kAgain = 16;  // windows after which the other way is tried again, if it was near:
constexpr double kNear = 1.3;   // so many times as slow
constexpr double kKept = 0.8;   // of what was measured, with each further window of that way

}  // namespace

bool WindowDrafting::drafts() const {
  const auto& [plain, drafted] = ways_;
  if (plain.tokens == 0) return false;
  if (drafted.tokens == 0) return true;
  const double gain = plain.seconds / plain.tokens / (drafted.seconds / drafted.tokens);
  const bool is_near = 1 / kNear < gain && gain < kNear;
  return (gain > 1) != (is_near && windows_ % kAgain == kAgain - 1);
}

void WindowDrafting::count(bool drafted, double seconds, int64_t tokens) {
  ++windows_;
  Way& way = ways_[drafted ? 1 : 0];
  way.seconds = kKept * way.seconds + seconds;
  way.tokens = kKept * way.tokens + double(tokens);
}

}  // namespace edgespec
