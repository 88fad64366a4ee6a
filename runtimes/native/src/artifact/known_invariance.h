// Whether a target is row-invariant on this machine: measured before, and read from the folder.
#pragma once

#include <optional>
#include <string>

#include "artifact/manifest.h"

namespace edgespec {

// What export, or a later measurement, found of a target's variant on the machine with this digest;
// none where nothing was measured.
std::optional<RowInvariance> known_invariance(const Manifest& manifest, const Variant& variant,
                                              const std::string& machine);

}  // namespace edgespec
