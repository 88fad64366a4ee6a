// The products of an operator: rows are normed or rotated, rounded, and multiplied with weights.
#pragma once

#include <memory>
#include <utility>

#include "ops/row_steps.h"
#include "ops/weights.h"
#include "ort/op.h"

namespace edgespec {

// Calls use(rows) with `count` quantized rows of `width` numbers; quantize(rows, r) makes row r.
template <typename Quantized, typename Quantize, typename Use>
void with_quantized(int64_t count, int64_t width, Quantize quantize, const Threads& threads,
                    Use use) {
  thread_local Quantized quantized;
  Quantized& rows = quantized;  // of the calling thread; the other threads write into it
  rows.resize(count, width);
  threads.each(count, count * width, [&](int64_t r) { quantize(rows, r); });  // a cycle a number
  use(std::as_const(rows));
}

// Makes rows of floats, one when it is asked for: a function that outlives this.
class RowMaker {
 public:
  template <typename Make>
  explicit RowMaker(const Make& make)
      : make_(&make), call_([](const void* made, int64_t r) -> const float* {
          return (*static_cast<const Make*>(made))(r);
        }) {}

  const float* operator()(int64_t r) const { return call_(make_, r); }

 private:
  const void* make_;
  const float* (*call_)(const void*, int64_t);
};

// One class for all weights, so that an operator is compiled once and not for each kind of them.
class Product {
 public:
  virtual ~Product() = default;

  virtual int64_t in() const = 0;
  virtual int64_t out() const = 0;

  // y [count, n] = rows · weights, plus `added` [count, n] unless that is null. `norm` has the
  // weights [k] of the norm before the product; null where there is none.
  virtual void multiply(int64_t count, const RowMaker& row, const float* norm, const float* added,
                        float* y, const Threads& threads) const = 0;

  // The same of x [count, k].
  void multiply(const float* x, int64_t count, const float* norm, const float* added, float* y,
                const Threads& threads) const {
    const auto row = [x, width = in()](int64_t r) { return x + r * width; };
    multiply(count, RowMaker(row), norm, added, y, threads);
  }
};

template <typename Matrix, typename Step>
class ProductOf : public Product {
 public:
  ProductOf(Matrix matrix, Step step) : matrix_(std::move(matrix)), step_(step) {}

  int64_t in() const override { return matrix_.in(); }
  int64_t out() const override { return matrix_.out(); }

  void multiply(int64_t count, const RowMaker& row, const float* norm, const float* added, float* y,
                const Threads& threads) const override {
    using Quantized = typename Matrix::Quantized;
    const auto step = step_.rows(norm);
    const auto quantize = [&](Quantized& rows, int64_t r) { step(row(r), rows, r); };
    with_quantized<Quantized>(count, in(), quantize, threads, [&](const Quantized& rows) {
      matrix_.multiply(rows, added, y, threads);
    });
  }

 private:
  Matrix matrix_;
  Step step_;
};

template <typename Matrix, typename Step>
std::unique_ptr<const Product> product_of(Matrix matrix, Step step) {
  return std::make_unique<const ProductOf<Matrix, Step>>(std::move(matrix), step);
}

// The first product of an operator, the last one too if it is a fused block, and the sizes that
// their weights have.
struct Products {
  Shapes shapes;
  std::unique_ptr<const Product> opening, closing;

  // Steps follow the weights, whose sizes they are checked against.
  template <typename Schema>
  static Products of(const Setup& setup) {
    using in = typename Schema::in;
    Products self;
    auto opening = opening_of<in>(setup, self.shapes);
    if constexpr (requires { in::closing_weights; }) {
      auto closing = closing_of<in>(setup, self.shapes);
      self.opening = product_of(std::move(opening), opening_step<Schema>(setup, self.shapes));
      self.closing = product_of(std::move(closing), closing_step<Schema>(setup, self.shapes));
    } else {
      self.opening = product_of(std::move(opening), opening_step<Schema>(setup, self.shapes));
    }
    return self;
  }
};

// The operator `Table`. `Body` computes its frame, which operators that differ in nothing but their
// products have in common.
template <typename Table, template <typename> typename Body>
class Framed : Body<typename Table::Frame::Schema> {
  using Frame = Body<typename Table::Frame::Schema>;

 public:
  using Schema = Table;

  explicit Framed(const Setup& setup) : Frame(setup, products_of(setup)) {}

  void compute(KernelContext& context) {
    context.number_by(Table::Frame::indices.data());
    Frame::compute(context);
  }

 private:
  static Products products_of(const Setup& setup) {
    using Share = typename Table::OfProducts;
    return Products::of<typename Share::Schema>(setup.numbered_by(Share::indices.data()));
  }
};

}  // namespace edgespec
