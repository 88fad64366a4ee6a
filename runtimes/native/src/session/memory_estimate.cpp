#include "session/memory_estimate.h"

#include "ort/cache.h"
#include "ort/recurrent_states.h"

namespace edgespec {

MemoryEstimate estimated_memory(const std::string& folder, const LoadOptions& options) {
  const Manifest manifest = runnable_manifest(folder);
  const int64_t capacity = capacity_of(manifest, options.capacity);
  MemoryEstimate estimate{0, 0};
  const auto add = [&](const Exported& model, const Variant& variant) {
    estimate.weights += manifest.bytes_of(variant);
    estimate.caches += capacity * cache_bytes(model, variant.cache_format) + state_bytes(model);
  };
  add(manifest.target, manifest.target.variant(options.target_format, "target"));
  if (manifest.draft) {
    add(*manifest.draft, manifest.draft->variant(options.draft_format, "draft"));
    // What the target returns for an EAGLE head is kept of each position.
    estimate.caches += capacity * manifest.target.features * sizeof(float);
  }
  return estimate;
}

}  // namespace edgespec
