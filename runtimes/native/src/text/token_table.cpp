#include "text/token_table.h"

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

constexpr int64_t kMostId = 1 << 24;
constexpr uint64_t kPrime = 0x100000001B3;  // of FNV-1a

uint64_t step(uint64_t hash, char byte) { return (hash ^ uint8_t(byte)) * kPrime; }

}  // namespace

void TokenTable::Growing::add(char byte) { hash_ = step(hash_, byte); }

uint64_t TokenTable::hash_of(std::string_view text) {
  uint64_t hash = kEmptyHash;
  for (const char byte : text) hash = step(hash, byte);
  return hash;
}

size_t TokenTable::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = (hash ^ hash >> 32) & mask;
  while (slots_[slot] != 0 && text_of(entries_[slots_[slot] - 1]) != text) slot = (slot + 1) & mask;
  return slot;
}

void TokenTable::grow() {
  if (entries_.size() * 2 < slots_.size()) return;
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view text = text_of(entries_[i]);
    slots_[slot_of(text, hash_of(text))] = uint32_t(i + 1);
  }
}

void TokenTable::add(std::string_view text, int64_t id) {
  if (id < 0 || id >= kMostId) {
    throw Error("a token with the id " + shown(id) + "; 0 to " + shown(kMostId - 1) + " are read");
  }
  grow();
  uint32_t& slot = slots_[slot_of(text, hash_of(text))];
  if (slot == 0) {
    entries_.push_back({texts_.size(), uint32_t(text.size()), int32_t(id)});
    texts_ += text;
    slot = uint32_t(entries_.size());
    ++count_;
    longest_ = std::max(longest_, text.size());
  }
  entries_[slot - 1].id = int32_t(id);
  if (of_id_.size() <= size_t(id)) of_id_.resize(id + 1);
  of_id_[id] = slot;
}

int64_t TokenTable::find(std::string_view text) const { return find(text, hash_of(text)); }

int64_t TokenTable::find(std::string_view text, uint64_t hash) const {
  if (slots_.empty()) return kNone;
  const uint32_t found = slots_[slot_of(text, hash)];
  return found == 0 ? kNone : entries_[found - 1].id;
}

std::optional<std::string_view> TokenTable::text(int64_t id) const {
  if (id < 0 || size_t(id) >= of_id_.size() || of_id_[id] == 0) return std::nullopt;
  return text_of(entries_[of_id_[id] - 1]);
}

}  // namespace edgespec
