// A shape that does not fit is refused with both tensors' sizes.
#include <string>

#include "check.h"
#include "schema/shapes.h"

namespace edgespec::test {
namespace {

using in = schema::Int8MatMul::in;

template <typename Body>
std::string message(Body body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "nothing was refused";
}

void sizes_are_learned() {
  Shapes shapes;
  shapes.take(in::weights, {576, 48});
  shapes.take(in::x, {5, 576});
  CHECK(shapes[Dim::m] == 5 && shapes[Dim::k] == 576 && shapes[Dim::n] == 48);
  CHECK((shapes.of(schema::Int8MatMul::out::y) == std::vector<int64_t>{5, 48}));
}

void messages_have_the_numbers() {
  Shapes shapes;
  shapes.take(in::weights, {512, 1536});
  CHECK(message([&] { shapes.take(in::x, {5, 576}); }) ==
        "x [m=5, k=576] and weights [k=512, n=1536] differ in k");
  CHECK(message([&] { shapes.take(in::x, {576}); }) == "x [576] has 1 dimensions instead of 2");
  CHECK(message([&] { shapes.set(Dim::n, 9, "num_heads"); }) ==
        "weights [k=512, n=1536] and num_heads=9 differ in n");
  CHECK(message([&] { Shapes().take(schema::HadamardRotation::in::hadamard, {64, 32}); }) ==
        "hadamard [block=64, block=32] has two sizes for block");
  CHECK(message([&] { Shapes().take(schema::Int8Head::in::choose, {2}); }) ==
        "choose [2] has a size other than 1 where 1 is fixed");
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  sizes_are_learned();
  messages_have_the_numbers();
}
