// A vector that begins at a cache line: what is read or written 64 bytes at a time then touches one
// line, not two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace edgespec {

template <typename Number>
struct AtLine {
  using value_type = Number;

  AtLine() = default;
  template <typename Other>
  explicit(false) AtLine(const AtLine<Other>&) {}

  Number* allocate(std::size_t count) {
    return static_cast<Number*>(::operator new(count * sizeof(Number), kLine));
  }
  void deallocate(Number* numbers, std::size_t) {
    ::operator delete(static_cast<void*>(numbers), kLine);
  }
  bool operator==(const AtLine&) const = default;

 private:
  static constexpr std::align_val_t kLine{64};
};

template <typename Number>
using AlignedVector = std::vector<Number, AtLine<Number>>;

}  // namespace edgespec
