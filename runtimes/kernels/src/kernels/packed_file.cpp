#include "kernels/packed_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "kernels/dots/dots.h"
#include "kernels/mapped_file.h"

namespace edgespec {
namespace {

// Raise it when weights are packed in another way.
constexpr const char* kFormat = "edgespec packed weights 1";
constexpr std::size_t kPage = 4096, kLine = 64;
constexpr std::size_t kDigits = 16;  // of the header's size

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// What the packed bytes depend on but for the weights: it differs between instruction sets.
std::string packing() {
  std::ostringstream text;
  text << kParts << ' ' << kWeightOffset << ' ' << kInt8Step << ' ' << packed_int8_index(1, 0)
       << ' ' << packed_int8_index(0, 1) << ' ' << packed_int8_index(0, kInt8Step - 1);
  return text.str();
}

std::string header_start(const std::string& identity) {
  return std::string(kFormat) + '\n' + packing() + '\n' + identity + '\n';
}

// Writes a file in large blocks: Linux then keeps it in memory on huge pages, where its file system
// can.
class Blocks {
 public:
  explicit Blocks(const std::string& path)
      : file_(std::filesystem::path(reinterpret_cast<const char8_t*>(path.c_str())),  // UTF-8
              std::ios::binary | std::ios::trunc) {
    block_.reserve(kBlock);
  }

  void append(const char* data, std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t some = std::min(bytes, kBlock - block_.size());
      block_.insert(block_.end(), data, data + some);
      data += some;
      bytes -= some;
      if (block_.size() == kBlock) flush();
    }
  }

  // Returns false where something could not be written.
  bool close() {
    flush();
    file_.close();
    return file_.good();
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 23;

  void flush() {
    file_.write(block_.data(), static_cast<std::streamsize>(block_.size()));
    block_.clear();
  }

  std::ofstream file_;
  std::vector<char> block_;
};

}  // namespace

PackedFile::PackedFile(const std::string& path, const std::string& identity) : identity_(identity) {
  map(path);
}

PackedMemory PackedFile::memory(const std::string& name, std::size_t bytes, const Fill& fill) {
  const Entry* known = find(name);
  if (known != nullptr && known->bytes == bytes) return known->memory;
  PackedMemory memory = in_private_memory(bytes, fill);
  if (!is_mapped() && known == nullptr) entries_.push_back({name, bytes, memory});
  return memory;
}

const PackedFile::Entry* PackedFile::find(const std::string& name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void PackedFile::map(const std::string& path) {
  const MappedFile file = map_file(path);
  const std::string_view content(reinterpret_cast<const char*>(file.start.get()), file.bytes);
  const std::string start = header_start(identity_);
  const std::size_t lines_start = start.size() + kDigits;
  if (content.size() < lines_start || !content.starts_with(start)) return;
  std::size_t header_bytes = 0;
  std::from_chars(&content[start.size()], &content[lines_start], header_bytes);
  if (header_bytes < lines_start || header_bytes > content.size()) return;

  std::istringstream lines(std::string(content.substr(0, header_bytes).substr(lines_start)));
  std::vector<Entry> entries;
  std::size_t offset = header_bytes;
  for (Entry entry; lines >> entry.bytes && lines.ignore() && std::getline(lines, entry.name);) {
    if (offset > content.size() || entry.bytes > content.size() - offset) return;
    entry.memory = PackedMemory(file.start, file.start.get() + offset);
    offset += rounded_up(entry.bytes, kLine);
    entries.push_back(entry);
  }
  // Anything else was cut short or changed.
  if (offset != content.size() || !content.starts_with(header(entries))) return;
  entries_ = std::move(entries);
  mapped_ = file.start;
}

std::string PackedFile::header(const std::vector<Entry>& entries) const {
  const std::string start = header_start(identity_);
  std::string lines = "\n";
  for (const Entry& entry : entries) {
    lines += std::to_string(entry.bytes) + ' ' + entry.name + '\n';
  }
  const std::size_t bytes = rounded_up(start.size() + kDigits + lines.size(), kPage);
  std::string size = std::to_string(bytes);
  size.resize(kDigits, ' ');
  std::string header = start + size + lines;
  header.resize(bytes);
  return header;
}

bool PackedFile::write(const std::string& path) const {
  if (entries_.empty()) return false;
  Blocks blocks(path);
  const std::string first = header(entries_);
  blocks.append(first.data(), first.size());
  for (const Entry& entry : entries_) {
    blocks.append(reinterpret_cast<const char*>(entry.memory.get()), entry.bytes);
    blocks.append(std::string(kLine, '\0').data(), rounded_up(entry.bytes, kLine) - entry.bytes);
  }
  return blocks.close();
}

std::shared_ptr<PackedFile>& packed_file_of_thread() {
  thread_local std::shared_ptr<PackedFile> file;
  return file;
}

}  // namespace edgespec
