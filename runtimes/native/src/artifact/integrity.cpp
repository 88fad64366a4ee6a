#include "artifact/integrity.h"

#include <algorithm>

#include "artifact/sha256.h"
#include "core/error.h"
#include "core/paths.h"
#include "core/shown.h"

namespace edgespec {
namespace {

bool leaves_folder(const std::string& name) {
  const std::filesystem::path path = path_of(name);
  return path.is_absolute() || std::ranges::find(path, "..") != path.end() ||
         name.find_first_of("\\:") != name.npos;
}

}  // namespace

void check_file(const std::filesystem::path& folder, const std::string& name,
                const FileRecord& recorded) {
  if (leaves_folder(name)) {
    throw Error("the manifest of " + name_of(folder) + " names " + shown(std::string_view(name)) +
                ", which leaves the folder; refused");
  }
  const std::filesystem::path path = folder / path_of(name);
  if (!std::filesystem::is_regular_file(path)) {
    throw Error(name_of(path) + " is missing; export the pair again");
  }
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  if (size != recorded.bytes) {
    throw Error(name_of(path) + " has " + std::to_string(size) + " bytes where the manifest says " +
                std::to_string(recorded.bytes) +
                "; it is damaged or half-copied: copy or export the pair again");
  }
  const bool is_small = name.ends_with(".onnx") || name.ends_with(".json");
  if (is_small && sha256_of(path) != recorded.sha256) {
    throw Error(name_of(path) + " is not the file that was exported; copy or export it again");
  }
}

}  // namespace edgespec
