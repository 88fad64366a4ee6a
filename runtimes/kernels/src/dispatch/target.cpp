#include "dispatch/target.h"

#include <cstdlib>

#include "dispatch/processor.h"
#include "dispatch/shared_library.h"

namespace edgespec {
namespace {

constexpr const char* kSwitch = "EDGESPEC_KERNELS";
constexpr const char* kOn = "1";  // the same as no value

// What the switch may be here.
std::string names() {
  std::string names;
  for (const Target& target : kTargets) {
    if (target.runs_here()) names += std::string(target.name) + ", ";
  }
  return names + "or 0 for no kernels";
}

}  // namespace

Choice chosen_target() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets the environment.
  const char* value = std::getenv(kSwitch);
  std::string name = value ? value : "";
  if (name == kOn) name.clear();
  for (const Target& target : kTargets) {
    if (!name.empty() && name != target.name) continue;
    if (target.runs_here()) return {target.name, ""};
    if (!name.empty()) {
      return {"", std::string(kSwitch) + " is " + name + ", which this processor lacks; give " +
                      names()};
    }
  }
  if (name.empty()) return {"", "this processor has no instruction set that kernels are built for"};
  return {"", std::string(kSwitch) + " is '" + name + "'; this processor has " + names()};
}

void* chosen_function(const char* name, std::string& problem) {
  const Choice choice = chosen_target();
  if (choice.target.empty()) {
    problem = choice.problem;
    return nullptr;
  }
  return function_of_sibling("edgespec_kernels_" + choice.target, name, problem);
}

}  // namespace edgespec
