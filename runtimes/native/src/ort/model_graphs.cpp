#include "ort/model_graphs.h"

namespace edgespec {

ModelGraphs::ModelGraphs(const OrtRuntime& runtime, const Kernels& kernels,
                         const Manifest& manifest, const Exported& exported, const Variant& variant,
                         int threads)
    : exported(exported),
      variant(variant),
      decoder(runtime, kernels, manifest.folder / variant.graphs.at("decoder"), threads) {
  const auto open = [&](const char* name, std::optional<Graph>& graph) {
    const auto file = variant.graphs.find(name);
    if (file == variant.graphs.end()) return;
    graph.emplace(runtime, kernels, manifest.folder / file->second, threads);
  };
  open("encoder", encoder);
  open("feature_fusion", fusion);
}

}  // namespace edgespec
