// A file of packed weights, which lies beside a graph: sessions map it instead of packing the
// weights again, and processes share its pages.
//
// It holds for one graph with its weights and one instruction set; `identity` says which:
//
//     format, packing and identity, each a line; the header's size; for each entry a line with its
//     bytes and its name; zeros up to a whole page; then the entries' bytes, each from a multiple
//     of 64 on
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/packed_memory.h"

namespace edgespec {

class PackedFile {
 public:
  // Maps the file if it is whole and of this identity; otherwise what is packed is recorded, for
  // `write`.
  PackedFile(const std::string& path, const std::string& identity);

  bool is_mapped() const { return mapped_ != nullptr; }

  // The weights of this name: of the file, or packed by `fill` and recorded. Weights that the file
  // lacks are packed privately.
  PackedMemory memory(const std::string& name, std::size_t bytes, const Fill& fill);

  // Writes what was recorded. Returns false where that is nothing, or cannot be written.
  bool write(const std::string& path) const;

 private:
  struct Entry {
    std::string name;
    std::size_t bytes;
    PackedMemory memory;
  };

  void map(const std::string& path);
  std::string header(const std::vector<Entry>& entries) const;
  const Entry* find(const std::string& name) const;

  std::string identity_;
  std::shared_ptr<std::byte> mapped_;
  std::vector<Entry> entries_;
};

// The file of the session that this thread makes; null if there is none.
std::shared_ptr<PackedFile>& packed_file_of_thread();

}  // namespace edgespec
