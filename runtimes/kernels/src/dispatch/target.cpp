#include "dispatch/target.h"

#include <cstdlib>
#include <string_view>

#include "dispatch/processor.h"
#include "dispatch/shared_library.h"

namespace edgespec {
namespace {

constexpr const char* kSwitch = "EDGESPEC_KERNELS";
constexpr const char* kOn = "1";  // the same as no value
// The targets of this build, each between commas.
constexpr std::string_view kBuilt = EDGESPEC_BUILT_TARGETS;

bool is_built(const Target& target) {
  return kBuilt.find("," + std::string(target.name) + ",") != std::string_view::npos;
}

bool is_usable(const Target& target) { return is_built(target) && target.runs_here(); }

// What the switch may be here.
std::string names() {
  std::string names;
  for (const Target& target : kTargets) {
    if (is_usable(target)) names += std::string(target.name) + ", ";
  }
  return "give " + (names.empty() ? "" : names + "or ") + "0 for no kernels";
}

// Why a target that was asked for cannot be used.
std::string refusal(const std::string& name) {
  const std::string is = std::string(kSwitch) + " is ";
  for (const Target& target : kTargets) {
    if (name != target.name) continue;
    return is + name +
           (target.runs_here() ? ", which was not compiled (EDGESPEC_TARGETS=all)"
                               : ", which this processor lacks") +
           "; " + names();
  }
  return is + "'" + name + "'; " + names();
}

// Why none can.
std::string nothing_usable() {
  for (const Target& target : kTargets) {
    if (target.runs_here()) {
      return "these kernels were compiled for another processor; compile them here, or with "
             "EDGESPEC_TARGETS=all";
    }
  }
  return "this processor has no instruction set that kernels are built for";
}

}  // namespace

Choice chosen_target() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets the environment.
  const char* value = std::getenv(kSwitch);
  std::string name = value ? value : "";
  if (name == kOn) name.clear();
  for (const Target& target : kTargets) {
    if ((name.empty() || name == target.name) && is_usable(target)) return {target.name, ""};
  }
  return {"", name.empty() ? nothing_usable() : refusal(name)};
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
