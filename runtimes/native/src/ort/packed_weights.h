// Packed weights, kept beside a graph: the same file that Python keeps and maps (decision 53).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "device/kernels.h"

namespace edgespec {

// While it lives, the session that this thread makes takes its packed weights from the kept file,
// or packs them. It changes nothing where weights are small, or with EDGESPEC_PACKED=0.
class PackedWeights {
 public:
  // `sha256`: of the graph's content.
  PackedWeights(const Kernels& kernels, const std::filesystem::path& graph,
                const std::string& sha256);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;

  // Leaves what was packed beside the graph, whole or not at all: not where the folder cannot be
  // written or the disk is nearly full.
  void keep();

 private:
  const Kernels& kernels_;
  std::filesystem::path file_;  // empty where none is kept
  uint64_t bytes_ = 0;          // of the weights
  bool is_mapped_ = false, has_ended_ = false;
};

}  // namespace edgespec
