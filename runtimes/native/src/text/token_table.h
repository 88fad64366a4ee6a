// The tokens of a vocabulary: texts to ids and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace edgespec {

class TokenTable {
 public:
  static constexpr int64_t kNone = -1;

  // A text that is there already gets the new id. Throws Error: the id is out of its range.
  void add(std::string_view text, int64_t id);

  // Ids that tokens have: 0 to one less, if none is left out.
  int64_t size() const { return count_; }
  // The id of a text, or kNone.
  int64_t find(std::string_view text) const;
  // The text of an id; none if it has none.
  std::optional<std::string_view> text(int64_t id) const;

  // Looks texts up that grow byte by byte.
  class Growing {
   public:
    explicit Growing(const TokenTable& table) : table_(table) {}
    void add(char byte);
    // The id of the text so far, given once more, or kNone.
    int64_t find(std::string_view text) const { return table_.find(text, hash_); }

   private:
    const TokenTable& table_;
    uint64_t hash_ = kEmptyHash;
  };
  size_t longest() const { return longest_; }

 private:
  friend class Growing;
  static constexpr uint64_t kEmptyHash = 0xCBF29CE484222325;
  struct Entry {
    uint64_t begin;
    uint32_t bytes;
    int32_t id;
  };
  static uint64_t hash_of(std::string_view text);
  std::string_view text_of(const Entry& entry) const {
    return std::string_view(texts_).substr(entry.begin, entry.bytes);
  }
  int64_t find(std::string_view text, uint64_t hash) const;
  // The slot of a text, or the free one where it belongs.
  size_t slot_of(std::string_view text, uint64_t hash) const;
  void grow();

  std::string texts_;  // one after the other
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // index of an entry + 1; 0: free. A power of two of them
  std::vector<uint32_t> of_id_;  // the same, by id
  int64_t count_ = 0;
  size_t longest_ = 0;  // bytes
};

}  // namespace edgespec
