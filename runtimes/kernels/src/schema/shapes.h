// The sizes that the symbols of an operator's shapes have, and the check that tensors agree on
// them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "schema/failure.h"
#include "schema/operators.h"

namespace edgespec {

class Shapes {
 public:
  // Of a symbol that has a size.
  int64_t operator[](Dim dim) const { return sizes_[int(dim)]; }

  // The shape of an output whose symbols all have sizes.
  std::vector<int64_t> of(const TensorSpec& spec) const {
    std::vector<int64_t> shape(spec.rank);
    for (size_t i = 0; i < spec.rank; ++i) shape[i] = sizes_[int(spec.dims[i])];
    return shape;
  }

  // Gives a symbol a size that an attribute has or that follows from others; messages call it
  // `source`.
  void set(Dim dim, int64_t size, const char* source) {
    const int i = int(dim);
    if (sizes_[i] == kUnknown) {
      sizes_[i] = size;
      sources_[i] = source;
    } else if (sizes_[i] != size) {
      fail(origin(i), " and ", source, "=", size, " differ in ", kDimNames[i]);
    }
  }

  // Takes the sizes of a tensor's symbols.
  //
  // Throws `Failure` if the rank is another one, or a symbol has another size already.
  void take(const TensorSpec& spec, const std::vector<int64_t>& shape) {
    if (shape.size() != spec.rank) {
      fail(spec.name, " [", listed(shape), "] has ", shape.size(), " dimensions instead of ",
           spec.rank);
    }
    for (size_t i = 0; i < spec.rank; ++i) {
      const int dim = int(spec.dims[i]);
      if (sizes_[dim] == kUnknown) {
        sizes_[dim] = shape[i];
        tensors_[dim] = &spec;
      } else if (sizes_[dim] != shape[i]) {
        refuse(spec, shape, dim);
      }
    }
  }

 private:
  static constexpr int64_t kUnknown = -1;

  [[noreturn]] void refuse(const TensorSpec& spec, const std::vector<int64_t>& shape,
                           int dim) const {
    if (dim == int(Dim::one)) fail(named(spec, shape), " has a size other than 1 where 1 is fixed");
    if (tensors_[dim] == &spec) fail(named(spec, shape), " has two sizes for ", kDimNames[dim]);
    fail(named(spec, shape), " and ", origin(dim), " differ in ", kDimNames[dim]);
  }

  // Where a symbol's size comes from: "weights [k=64, n=48]" or "num_heads=9".
  std::string origin(int dim) const {
    if (tensors_[dim]) return named(*tensors_[dim], of(*tensors_[dim]));
    return std::string(sources_[dim]) + "=" + std::to_string(sizes_[dim]);
  }

  // "x [m=5, k=64]"
  static std::string named(const TensorSpec& spec, const std::vector<int64_t>& shape) {
    std::string text = std::string(spec.name) + " [";
    for (size_t i = 0; i < spec.rank; ++i) {
      if (i) text += ", ";
      if (int(spec.dims[i])) text += std::string(kDimNames[int(spec.dims[i])]) + "=";
      text += std::to_string(shape[i]);
    }
    return text + "]";
  }

  static std::string listed(const std::vector<int64_t>& shape) {
    std::string text;
    for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
    return text;
  }

  static constexpr std::array<int64_t, kDims> unknown() {
    std::array<int64_t, kDims> sizes;
    sizes.fill(kUnknown);
    sizes[int(Dim::one)] = 1;
    return sizes;
  }

  std::array<int64_t, kDims> sizes_ = unknown();
  std::array<const TensorSpec*, kDims> tensors_{};  // that brought the size first
  std::array<const char*, kDims> sources_{};        // or what else did
};

}  // namespace edgespec
