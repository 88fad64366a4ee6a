#include "artifact/manifest.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "artifact/canonical_json.h"
#include "artifact/integrity.h"
#include "artifact/manifest_types.h"
#include "artifact/sha256.h"
#include "core/error.h"
#include "core/paths.h"
#include "core/shown.h"
#include "core/whole_numbers.h"

namespace edgespec {
namespace {

constexpr const char* kWeightsExtension = ".data";

using Json = nlohmann::ordered_json;  // the first variant is the default

constexpr const char* kManifest = "edgespec.json";
constexpr std::array<std::string_view, 3> kHosts = {"web", "gpu", "npu"};
constexpr int64_t kMostTokens = 100'000'000;
constexpr int64_t kMostHeads = 10'000;
constexpr int64_t kMostWidth = 65'536;
constexpr int64_t kMostPositions = 1'000'000'000;

int64_t in_range(const Json& object, const char* name, int64_t most, const char* of = "") {
  const auto value = object.at(name).get<int64_t>();
  if (1 <= value && value <= most) return value;
  throw std::runtime_error(std::string(name) + of + " is " + shown(value) + ", not 1 to " +
                           shown(most));
}

template <typename Value>
std::optional<Value> optional_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return found->get<Value>();
}

std::optional<RowInvariance> row_invariance_of(const Json& variant) {
  const auto found = variant.find("row_invariance");
  if (found == variant.end() || found->is_null()) return std::nullopt;
  const RowInvariance measured{
      found->at("is_row_invariant").get<bool>(), found->at("min_rows").get<int64_t>(),
      found->at("max_rows").get<int64_t>(),      found->at("machine").get<std::string>(),
      found->value("candidates", false),         found->value("texts", false)};
  const auto& [_, fewest, most, machine, candidates, texts] = measured;
  if (1 <= fewest && fewest <= most && most <= kMaxRows) return measured;
  throw std::runtime_error("min_rows is " + shown(fewest) + ", max_rows " + shown(most));
}

double share(const Json& object, const char* name, double usual) {
  const double value = object.value(name, usual);
  if (0 <= value && value <= 1) return value;
  throw std::runtime_error("a position costs " + shown_json(object.at(name)) +
                           " steps, not 0 to 1");
}

FormatCost row_cost_of(const Json& variant) {
  const Json data = variant.value("row_cost", Json::object());
  share(data, "marginal", 0);
  FormatCost cost{share(data, "marginal_with_kernels", 0.045), share(data, "arithmetic", 0), {}};
  const Json by_target = data.value("arithmetic_on", Json::object());
  for (const auto& [target, _] : by_target.items()) {
    cost.arithmetic_on[target] = share(by_target, target.c_str(), 0);
  }
  return cost;
}

Variant variant_of(const std::string& name, const Json& data, const std::string& source) {
  Variant variant{name,
                  data.at("graphs").get<std::map<std::string, std::string>>(),
                  data.at("weights_format").get<std::string>(),
                  data.at("cache_format").get<std::string>(),
                  row_invariance_of(data),
                  row_cost_of(data),
                  data.value("run_by_kernels", false)};
  for (const Json& blocks : data.at("blocks")) {
    const auto fused = blocks.at("fused").get<int64_t>(), total = blocks.at("total").get<int64_t>();
    if (0 <= fused && fused <= total) continue;
    throw std::runtime_error("fused is " + shown(fused) + ", total " + shown(total));
  }
  if (!variant.graphs.contains("decoder")) {
    throw std::runtime_error("the variant " + shown(std::string_view(name)) + " of " + source +
                             " has no decoder");
  }
  const std::string& cache = variant.cache_format;
  if (cache != "fp32" && cache != "fp16" && cache != "int8") {
    throw std::runtime_error("cache_format is " + shown(std::string_view(cache)));
  }
  const auto attention = data.value("attention_format", std::string("fp32"));
  if (attention == "fp32" || attention == "bf16") return variant;
  throw std::runtime_error("attention_format is " + shown(std::string_view(attention)));
}

std::vector<LayerShape> layers_of(const Json& data) {
  const int64_t count = in_range(data, "layers", kMostHeads);
  const LayerShape usual{in_range(data, "kv_heads", kMostHeads),
                         in_range(data, "head_size", kMostWidth)};
  const Json& shapes = data.at("layer_shapes");
  if (shapes.empty()) return std::vector<LayerShape>(count, usual);
  if (int64_t(shapes.size()) != count) {
    throw std::runtime_error("layer_shapes has " + std::to_string(shapes.size()) + " of " +
                             shown(count) + " layers");
  }
  std::vector<LayerShape> layers;
  for (const Json& shape : shapes) {
    layers.push_back({in_range(shape, "kv_heads", kMostHeads, " of a layer"),
                      in_range(shape, "head_size", kMostWidth, " of a layer")});
  }
  return layers;
}

// The ranges of what only some models have.
void check_rest(const Exported& model, const Json& data) {
  for (const auto& [state, row] : model.states) {
    if (1 <= std::min(state, row) && std::max(state, row) <= kMostPositions) continue;
    throw std::runtime_error("states has " + shown(state) + " and " + shown(row) + " numbers");
  }
  if (!(0 <= model.features && model.features <= kMostTokens)) {
    throw std::runtime_error("features is " + shown(model.features));
  }
  if (!(model.vocab_size <= model.read_tokens && model.read_tokens <= kMostTokens)) {
    throw std::runtime_error("input_vocab_size is " + shown(model.read_tokens) + ", not " +
                             shown(model.vocab_size) + " to " + shown(kMostTokens));
  }
  if (model.positions && *model.positions < 1) {
    throw std::runtime_error("positions is " + shown(*model.positions) + ", not 1 or more");
  }
  if (!data.at("block_rows").is_null()) in_range(data, "block_rows", kMaxRows);
  if (model.start_token && !(0 <= *model.start_token && *model.start_token < model.vocab_size)) {
    throw std::runtime_error("start_token is " + shown(*model.start_token));
  }
}

Exported model_of(const Json& data) {
  Exported model;
  model.family = data.at("family").get<std::string>();
  model.source = data.at("source").get<std::string>();
  model.vocab_size = in_range(data, "vocab_size", kMostTokens);
  model.read_tokens = optional_of<int64_t>(data, "input_vocab_size").value_or(model.vocab_size);
  model.capacity = in_range(data, "capacity", kMostPositions);
  model.positions = optional_of<int64_t>(data, "positions");
  model.start_token = optional_of<Token>(data, "start_token");
  model.features = data.value("features", int64_t{0});
  model.block_rows = optional_of<int64_t>(data, "block_rows");
  for (const Json& kept : data.at("states")) {
    model.states.push_back({kept.at("state").get<int64_t>(), kept.at("row").get<int64_t>()});
  }
  model.layers = layers_of(data);
  model.vocabulary = optional_of<std::string>(data, "vocabulary").value_or("");
  check_rest(model, data);
  // Its prompts are the decoder's, not an encoder's.
  if (model.is_speech()) model.start_token.reset();
  for (const auto& [name, variant] : data.at("variants").items()) {
    model.variants.push_back(variant_of(name, variant, model.source));
  }
  if (model.variants.empty()) throw std::runtime_error(model.source + " has no variant");
  return model;
}

std::optional<ChatFormat> chat_of(const Json& data) {
  if (data.is_null()) return std::nullopt;
  const auto names = [&](const char* name) {
    return optional_of<std::vector<std::string>>(data, name).value_or(std::vector<std::string>{});
  };
  return ChatFormat{.before = data.at("before").get<std::string>(),
                    .after = data.at("after").get<std::string>(),
                    .before_answer = optional_of<std::string>(data, "before_answer"),
                    .between = optional_of<std::string>(data, "between"),
                    .system = optional_of<std::string>(data, "system"),
                    .after_system = optional_of<std::string>(data, "after_system"),
                    .trims = names("trims"),
                    .odd = names("odd"),
                    .hides = data.value("hides", std::string()),
                    .hides_newlines = data.value("hides_newlines", false)};
}

// What the graphs were made for; empty for any machine.
std::string host_of(const Json& data) {
  const auto host = optional_of<std::string>(data, "host");
  if (!host) return "";
  if (std::ranges::find(kHosts, *host) != kHosts.end()) return *host;
  throw std::runtime_error("host is " + shown(std::string_view(*host)));
}

Manifest manifest_of(const Json& data, const std::filesystem::path& folder) {
  Manifest manifest{.folder = folder,
                    .digest = data.value("digest", std::string()),
                    .eos_token_ids = data.at("eos_token_ids").get<Tokens>(),
                    .chat = chat_of(data.value("chat", Json())),
                    .host = host_of(data),
                    .target = model_of(data.at("target")),
                    .draft = std::nullopt,
                    .files = {}};
  if (!data.at("draft").is_null()) manifest.draft = model_of(data.at("draft"));
  for (const auto& [name, file] : data.at("files").items()) {
    manifest.files[name] = {file.at("bytes").get<int64_t>(), file.at("sha256").get<std::string>()};
  }
  return manifest;
}

void check_version(const Json& version, const std::filesystem::path& folder) {
  if (version == kFormatVersion) return;
  const bool older =
      version.is_boolean() || (version.is_number_integer() && version < kFormatVersion);
  throw Error(name_of(folder) + " has format version " + shown_json(version) +
              " and this edgespec reads " + shown(kFormatVersion) + "; " +
              (older ? "export the pair again" : "update edgespec or export the pair again"));
}

// Every file that the manifest names is recorded, and there as it was exported.
void check_files(const Manifest& manifest) {
  for (const auto& [name, recorded] : manifest.files) check_file(manifest.folder, name, recorded);
  std::map<std::string, bool> named = {{kTokenizer, true}};
  for (const Exported* model : {&manifest.target, manifest.draft ? &*manifest.draft : nullptr}) {
    if (model == nullptr) continue;
    if (model != &manifest.target && !model->vocabulary.empty()) named[model->vocabulary] = true;
    for (const Variant& variant : model->variants) {
      for (const auto& [graph, file] : variant.graphs) named[file] = true;
    }
  }
  for (const auto& [name, is] : named) {
    if (manifest.files.contains(name)) continue;
    throw Error(name_of(manifest.folder / kManifest) + " does not record " +
                shown(std::string_view(name)) + " among its files; export it again");
  }
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream content(file, std::ios::binary);
  std::ostringstream text;
  text << content.rdbuf();
  return std::move(text).str();
}

}  // namespace

const Variant& Exported::variant(const std::string& name, const std::string& role) const {
  std::string names;
  for (const Variant& one : variants) {
    if (name.empty() || one.name == name) return one;
    names += (names.empty() ? "" : ", ") + one.name;
  }
  throw UsageError("the " + role + " was not exported as " + shown(std::string_view(name)) +
                   "; there is: " + names);
}

const Variant& Exported::reading(const Variant& asked, const std::string& cache_format) const {
  for (const Variant& each : variants) {
    if (each.weights_format == asked.weights_format && each.cache_format == cache_format) {
      return each;
    }
  }
  throw Error(source + " reads its target's cache and was not exported for one in " + cache_format +
              "; export the pair with this cache format");
}

uint64_t Manifest::bytes_of(const Variant& variant) const {
  uint64_t bytes = 0;
  for (const auto& entry : files) {
    const std::string& name = entry.first;
    const std::filesystem::path path = path_of(name);
    const auto counts = [&](const auto& graph) {
      const bool is_weights = path.extension() == kWeightsExtension;
      return name == graph.second ||
             (is_weights && path.parent_path() == path_of(graph.second).parent_path());
    };
    if (std::ranges::any_of(variant.graphs, counts)) bytes += entry.second.bytes;
  }
  return bytes;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifest;
  if (!std::filesystem::is_regular_file(path)) {
    const bool is_folder = std::filesystem::is_directory(folder);
    const std::string lacks =
        is_folder ? std::string(" has no ") + kManifest : ": there is no such folder";
    throw Error(name_of(folder) + lacks +
                ", so it is not an exported pair; make one with: edgespec export TARGET DRAFT -o "
                "DIR");
  }
  const std::string text = text_of(path);
  Manifest manifest;
  bool is_unchanged = false;
  try {
    const Json data = parsed<Json>(text);
    if (!data.is_object() || !data.contains("version")) throw std::runtime_error("'version'");
    check_version(data["version"], folder);
    check_types(data);
    manifest = manifest_of(data, folder);
    is_unchanged = manifest.digest == sha256(canonical_json(text, "digest"));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(name_of(path) + " is damaged (" + error.what() + "); export the pair again");
  }
  if (!is_unchanged)
    throw Error(name_of(path) + " was changed after export; export the pair again");
  check_files(manifest);
  return manifest;
}

}  // namespace edgespec
