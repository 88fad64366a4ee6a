// How kernels read packed weights: in panels of some outputs, in shares for threads, each for all
// rows of a call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/prefetch.h"
#include "threads/parallel_for.h"

namespace edgespec {

inline int64_t rounded_up_quotient(int64_t count, int64_t unit) {
  return (count + unit - 1) / unit;
}

// Splits the panels of a matrix into shares, each large enough for one thread to take.
class Shares {
 public:
  Shares(int64_t panels, int64_t panel_bytes) : panels_(panels) {
    constexpr int64_t kMaxShareBytes = 131072;
    constexpr int64_t kMultiple = 4;  // so that two or four threads get equally many shares
    const int64_t fewest = rounded_up_quotient(panels * panel_bytes, kMaxShareBytes);
    count_ = std::min(panels, rounded_up_quotient(fewest, kMultiple) * kMultiple);
  }

  int64_t count() const { return count_; }
  int64_t first_panel(int64_t share) const { return share * panels_ / count_; }

 private:
  int64_t panels_, count_;
};

// Calls With<count>::run(first row, arguments…) for all rows, in parts of equal size, at most
// `most` each.
template <int most, template <int> typename With, typename... Arguments>
void by_parts(int64_t rows, const Arguments&... arguments) {
  using Run = void (*)(int64_t first_row, const Arguments&...);
  static constexpr auto kRunByCount = []<size_t... count>(std::index_sequence<count...>) {
    return std::array<Run, sizeof...(count)>{With<int(count + 1)>::run...};
  }(std::make_index_sequence<most>());  // index: count - 1
  const int64_t parts = rounded_up_quotient(rows, most);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * rows / parts, end = (part + 1) * rows / parts;
    kRunByCount[end - first - 1](first, arguments...);
  }
}

// Calls body(panel) for all panels, on several threads.
template <typename Body>
void each_panel(int64_t panels, int64_t panel_bytes, const Threads& threads, Body body) {
  const Shares shares(panels, panel_bytes);
  threads.each(shares.count(), [&](int64_t share) {
    const int64_t end = shares.first_panel(share + 1);
    for (int64_t panel = shares.first_panel(share); panel < end; ++panel) body(panel);
  });
}

// Calls With<count>::run(first row, product, panel) for all rows and panels. One panel stays in the
// cache for all rows.
template <int most, template <int> typename With, typename Product>
void each_panel(int64_t rows, int64_t panels, int64_t panel_bytes, const Product& product,
                const Threads& threads) {
  each_panel(panels, panel_bytes, threads,
             [&](int64_t panel) { by_parts<most, With>(rows, product, panel); });
}

}  // namespace edgespec
