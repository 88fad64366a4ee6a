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

// Adds a result to those that the folder keeps; one of the same graph and machine is replaced.
// Where the folder cannot be written it is measured again the next time. `measured_on`: the machine
// in words. `difference`: of a logit between calls of one position and longer ones.
void keep_invariance(const Manifest& manifest, const Variant& variant, const RowInvariance& found,
                     const std::string& measured_on, double difference);

}  // namespace edgespec
