#include "artifact/known_invariance.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/whole_numbers.h"

namespace edgespec {
namespace {

constexpr const char* kFile = "row_invariance.json";

// The result in the folder's file for a graph and a machine. A damaged file counts as empty.
std::optional<RowInvariance> measured(const Manifest& manifest, const std::string& graph,
                                      const std::string& machine) {
  const std::filesystem::path path = manifest.folder / kFile;
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  try {
    for (const auto& entry : parsed<nlohmann::json>(std::ifstream(path))) {
      const auto& found = entry.at("row_invariance");
      if (entry.at("graph") != graph || found.at("machine") != machine) continue;
      const RowInvariance result{
          found.at("is_row_invariant").get<bool>(), found.at("min_rows").get<int64_t>(),
          found.at("max_rows").get<int64_t>(),      machine,
          found.value("candidates", false),         found.value("texts", false)};
      if (1 <= result.min_rows && result.min_rows <= result.max_rows &&
          result.max_rows <= kMaxRows) {
        return result;
      }
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

// Writes a file, if that is possible: whole or not at all.
void write_whole(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::path part = path;
  part += ".part" + std::to_string(std::random_device()());
  std::error_code failed;
  {
    std::ofstream stream(part, std::ios::binary);
    stream << content;
    stream.close();
    if (!stream) failed = std::make_error_code(std::errc::io_error);
  }
  if (!failed) std::filesystem::rename(part, path, failed);
  std::error_code ignored;
  if (failed) std::filesystem::remove(part, ignored);
}

}  // namespace

void keep_invariance(const Manifest& manifest, const Variant& variant, const RowInvariance& found,
                     const std::string& measured_on, double difference) {
  using Json = nlohmann::ordered_json;
  const std::filesystem::path path = manifest.folder / kFile;
  const std::string& graph = manifest.files.at(variant.graphs.at("decoder")).sha256;
  Json kept = Json::array();
  try {
    if (std::filesystem::is_regular_file(path)) {
      for (const Json& entry : parsed<Json>(std::ifstream(path))) {
        const bool of_machine = entry.at("row_invariance").at("machine") == found.machine;
        if (!(of_machine && entry.at("graph") == graph)) kept.push_back(entry);
      }
    }
  } catch (const std::exception&) {
    kept = Json::array();  // a damaged file counts as empty
  }
  kept.push_back({{"graph", graph},
                  {"row_invariance",
                   {{"is_row_invariant", found.is_row_invariant},
                    {"min_rows", found.min_rows},
                    {"max_rows", found.max_rows},
                    {"one_row_difference", difference},
                    {"measured_on", measured_on},
                    {"machine", found.machine},
                    {"candidates", found.candidates},
                    {"texts", found.texts},
                    {"kernels", "edgespec-kernels " EDGESPEC_KERNELS_VERSION},
                    {"logits", ""}}}});
  write_whole(path, kept.dump(2) + "\n");
}

std::optional<RowInvariance> known_invariance(const Manifest& manifest, const Variant& variant,
                                              const std::string& machine) {
  const std::string& graph = manifest.files.at(variant.graphs.at("decoder")).sha256;
  if (const auto found = measured(manifest, graph, machine)) return found;
  const auto& exported = variant.row_invariance;
  return exported && exported->machine == machine ? exported : std::nullopt;
}

}  // namespace edgespec
