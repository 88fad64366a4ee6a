#include "device/kernels.h"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"
#include "dispatch/target.h"

// What the kernels of a target show, see CMakeLists.txt.
#define LINKED(target)                                                                      \
  extern "C" OrtStatus* edgespec_operators_##target(OrtSessionOptions*, const OrtApiBase*); \
  extern "C" const edgespec::SamplingTable* edgespec_sampling_##target();                   \
  extern "C" int edgespec_packed_begin_##target(const char*, const char*);                  \
  extern "C" int edgespec_packed_end_##target(const char*);
#include "linked_targets.inc"
#undef LINKED

namespace edgespec {
namespace {

struct Linked {
  const char* target;
  const SamplingTable* (*sampling)();
  decltype(Kernels::add_operators) add_operators;
  decltype(Kernels::packed_begin) packed_begin;
  decltype(Kernels::packed_end) packed_end;
};

// The fastest first.
constexpr std::array kLinked = {
#define LINKED(target)                                                     \
  Linked{#target, edgespec_sampling_##target, edgespec_operators_##target, \
         edgespec_packed_begin_##target, edgespec_packed_end_##target},
#include "linked_targets.inc"
#undef LINKED
};

Kernels of(const Linked& linked) {
  return {linked.target, *linked.sampling(), linked.add_operators, linked.packed_begin,
          linked.packed_end};
}

}  // namespace

Kernels kernels_here() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets the environment.
  const char* forced = std::getenv("EDGESPEC_KERNELS");
  if (forced != nullptr && std::string_view(forced) == "0") {
    throw UsageError(
        "EDGESPEC_KERNELS is 0, and libedgespec does not run without kernels; unset it");
  }
  const Choice choice = chosen_target();
  if (!choice.problem.empty()) throw UsageError(choice.problem);
  for (const Linked& linked : kLinked) {
    if (choice.target == linked.target) return of(linked);
  }
  throw Error("kernels of " + choice.target + " are not linked");
}

}  // namespace edgespec
