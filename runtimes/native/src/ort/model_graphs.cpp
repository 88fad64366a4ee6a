#include "ort/model_graphs.h"

#include "core/error.h"
#include "core/paths.h"

namespace edgespec {
namespace {

GraphFile file_of(const Manifest& manifest, const std::string& name) {
  return {manifest.folder / path_of(name), manifest.files.at(name).sha256};
}

}  // namespace

ModelGraphs::ModelGraphs(const OrtRuntime& runtime, const Kernels& kernels,
                         const Manifest& manifest, const Exported& exported, const Variant& variant,
                         int threads)
    : exported(exported),
      variant(variant),
      decoder(runtime, kernels, file_of(manifest, variant.graphs.at("decoder")), threads) {
  const auto open = [&](const char* name, std::optional<Graph>& graph) {
    const auto file = variant.graphs.find(name);
    if (file == variant.graphs.end()) return;
    graph.emplace(runtime, kernels, file_of(manifest, file->second), threads);
  };
  open("encoder", encoder);
  open("feature_fusion", fusion);
  open("transition", transition);
  if (!exported.is_block_draft() || (fusion && (transition || exported.block_rows))) return;
  throw Error(exported.source + " lacks a graph of a block draft; export the pair again");
}

}  // namespace edgespec
