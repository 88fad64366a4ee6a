#include "artifact/known_invariance.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace edgespec {
namespace {

constexpr const char* kFile = "row_invariance.json";

// The result in the folder's file for a graph and a machine. A damaged file counts as empty.
std::optional<RowInvariance> measured(const Manifest& manifest, const std::string& graph,
                                      const std::string& machine) {
  const std::filesystem::path path = manifest.folder / kFile;
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  try {
    for (const auto& entry : nlohmann::json::parse(std::ifstream(path))) {
      const auto& found = entry.at("row_invariance");
      if (entry.at("graph") != graph || found.at("machine") != machine) continue;
      const RowInvariance result{found.at("is_row_invariant").get<bool>(),
                                 found.at("min_rows").get<int64_t>(),
                                 found.at("max_rows").get<int64_t>(), machine};
      if (1 <= result.min_rows && result.min_rows <= result.max_rows &&
          result.max_rows <= kMaxRows) {
        return result;
      }
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<RowInvariance> known_invariance(const Manifest& manifest, const Variant& variant,
                                              const std::string& machine) {
  const std::string& graph = manifest.files.at(variant.graphs.at("decoder")).sha256;
  if (const auto found = measured(manifest, graph, machine)) return found;
  const auto& exported = variant.row_invariance;
  return exported && exported->machine == machine ? exported : std::nullopt;
}

}  // namespace edgespec
