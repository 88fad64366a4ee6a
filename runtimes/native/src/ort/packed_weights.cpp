#include "ort/packed_weights.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

#include "artifact/canonical_json.h"
#include "artifact/sha256.h"
#include "core/paths.h"
#include "device/changed.h"

namespace edgespec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "packed";
constexpr uint64_t kLeastBytes = 4'000'000;  // of weights: less is packed in no time
constexpr uint64_t kRoom = 4;   // times the weights' bytes must be free: a cache fills no disk
constexpr size_t kDigits = 16;  // of the digest in the file's name

struct WeightFile {
  std::string name;
  uint64_t bytes;
  int64_t changed;
};

// Those beside a graph, by their names.
std::vector<WeightFile> weight_files(const fs::path& folder) {
  std::vector<WeightFile> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = name_of(entry.path().filename());
    if (!name.starts_with("weights") || !name.ends_with(".data")) continue;
    found.push_back({name, entry.file_size(), changed_nanoseconds(entry.path())});
  }
  std::ranges::sort(found, {}, &WeightFile::name);
  return found;
}

// What a file holds for: a graph with its weights, which are told by sizes and times, and kernels.
// As Python's json.dumps writes it.
std::string identity_of(const std::string& graph, const std::vector<WeightFile>& weights,
                        const std::string& target) {
  std::string files;
  for (const auto& [name, bytes, changed] : weights) {
    files += (files.empty() ? "[" : ", [") + json_text(name) + ", " + std::to_string(bytes) + ", " +
             std::to_string(changed) + "]";
  }
  return sha256("[" + json_text(graph) + ", [" + files + "], " +
                json_text("edgespec-kernels " EDGESPEC_KERNELS_VERSION) + ", " + json_text(target) +
                "]");
}

bool is_switched_off() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets the environment.
  const char* value = std::getenv("EDGESPEC_PACKED");
  return value != nullptr && std::string_view(value) == "0";
}

// Removes files of the same graph that hold no longer. Who maps one keeps it.
void remove_others(const fs::path& kept) {
  const std::string name = name_of(kept.filename());
  const std::string start = name.substr(0, name.rfind('-') + 1);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(kept.parent_path(), ignored)) {
    const std::string other = name_of(entry.path().filename());
    if (other == name || !other.starts_with(start) || !other.ends_with(".bin")) continue;
    fs::remove(entry.path(), ignored);
  }
}

}  // namespace

PackedWeights::PackedWeights(const Kernels& kernels, const fs::path& graph,
                             const std::string& sha256)
    : kernels_(kernels) {
  const std::vector<WeightFile> weights = weight_files(graph.parent_path());
  for (const WeightFile& file : weights) bytes_ += file.bytes;
  if (bytes_ < kLeastBytes || is_switched_off()) return;
  const std::string identity = identity_of(sha256, weights, kernels.target);
  const std::string name = name_of(graph.stem()) + "-" + identity.substr(0, kDigits) + ".bin";
  file_ = graph.parent_path() / kFolder / path_of(name);
  is_mapped_ = kernels.packed_begin(name_of(file_).c_str(), identity.c_str()) != 0;
}

PackedWeights::~PackedWeights() {
  if (!file_.empty() && !has_ended_) kernels_.packed_end(nullptr);
}

void PackedWeights::keep() {
  if (file_.empty() || is_mapped_) return;
  const fs::path folder = file_.parent_path();
  std::error_code failed;
  const fs::space_info disk = fs::space(folder.parent_path(), failed);
  if (failed || disk.available / kRoom < bytes_) return;
  fs::create_directory(folder, failed);
  remove_others(file_);
  const fs::path part = folder / path_of("." + name_of(file_.filename()) + ".partial");
  has_ended_ = true;
  const bool is_whole = kernels_.packed_end(name_of(part).c_str()) != 0;
  if (is_whole) fs::rename(part, file_, failed);
  if (!is_whole || failed) fs::remove(part, failed);
  // An empty folder goes; a file of that name is somebody else's.
  if (fs::is_directory(fs::symlink_status(folder, failed))) fs::remove(folder, failed);
}

}  // namespace edgespec
