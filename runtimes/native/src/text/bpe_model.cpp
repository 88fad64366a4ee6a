// Byte pair encoding: the pair that was learned first is merged first.
#include <algorithm>
#include <queue>
#include <tuple>

#include "core/shown.h"
#include "text/word_model.h"

namespace edgespec {
namespace {

struct Merge {
  int64_t left, right;  // tokens
  uint32_t rank;
  int64_t merged;
};

// Merges by their pairs: a hash table with free slots in between.
class Merges {
 public:
  explicit Merges(size_t count) {
    size_t slots = 16;
    while (slots < count * 2) slots *= 2;
    slots_.assign(slots, {TokenTable::kNone, 0, 0, 0});
  }
  void add(const Merge& merge) { slots_[slot_of(merge.left, merge.right)] = merge; }
  const Merge* find(int64_t left, int64_t right) const {
    const Merge& found = slots_[slot_of(left, right)];
    return found.left == TokenTable::kNone ? nullptr : &found;
  }

 private:
  size_t slot_of(int64_t left, int64_t right) const {
    const size_t mask = slots_.size() - 1;
    uint64_t hash = (uint64_t(left) << 32 ^ uint64_t(right)) * 0x9E3779B97F4A7C15;
    size_t slot = (hash >> 29) & mask;
    const auto is_other = [&](const Merge& merge) {
      return merge.left != TokenTable::kNone && (merge.left != left || merge.right != right);
    };
    while (is_other(slots_[slot])) slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Merge> slots_;
};

class BpeModel : public WordModel {
 public:
  BpeModel(const Json& part, ModelTables tables)
      : WordModel(std::move(tables.vocabulary)),
        prefix_(text_in(part, "continuing_subword_prefix")),
        suffix_(text_in(part, "end_of_word_suffix")),
        fuses_unknown_(flag_in(part, "fuse_unk", false)),
        falls_back_(flag_in(part, "byte_fallback", false)),
        ignores_merges_(flag_in(part, "ignore_merges", false)),
        merges_(tables.merge_ends.size() / 2) {
    if (const std::string unknown = text_in(part, "unk_token"); !unknown.empty()) {
      unknown_ = vocabulary().find(unknown);
    }
    read_merges(tables.merges, tables.merge_ends);
  }

  void encode(std::string_view word, Tokens& tokens) const override {
    if (word.empty()) return;
    if (const int64_t whole = ignores_merges_ ? vocabulary().find(word) : TokenTable::kNone;
        whole != TokenTable::kNone) {
      tokens.push_back(whole);
      return;
    }
    const Tokens merged = merge(characters_of_word(word));
    tokens.insert(tokens.end(), merged.begin(), merged.end());
  }

 private:
  void read_merges(std::string_view texts, const std::vector<uint64_t>& ends) {
    uint64_t begin = 0;
    for (size_t i = 0; i + 1 < ends.size(); i += 2) {
      const std::string_view left = texts.substr(begin, ends[i] - begin);
      const std::string_view right = texts.substr(ends[i], ends[i + 1] - ends[i]);
      begin = ends[i + 1];
      if (right.size() < prefix_.size())
        throw Error("a merge without the prefix of its second part");
      std::string whole(left);
      whole += right.substr(prefix_.size());
      merges_.add({id_of(left), id_of(right), uint32_t(i / 2), id_of(whole)});
    }
  }

  int64_t id_of(std::string_view text) const {
    const int64_t id = vocabulary().find(text);
    if (id == TokenTable::kNone) throw Error("a merge of " + shown(text) + ", which is no token");
    return id;
  }

  // A token for each character, or for each byte of one that is unknown.
  Tokens characters_of_word(std::string_view word) const {
    Tokens symbols;
    bool unknown_waits = false;
    const auto end_unknown = [&] {
      if (unknown_waits) symbols.push_back(unknown_);
      unknown_waits = false;
    };
    for (size_t at = 0; at < word.size();) {
      const size_t bytes = character_bytes(word.substr(at));
      std::string text(word.substr(at, bytes));
      if (at > 0) text.insert(0, prefix_);
      at += bytes;
      if (at == word.size()) text += suffix_;
      if (const int64_t id = vocabulary().find(text); id != TokenTable::kNone) {
        end_unknown();
        symbols.push_back(id);
        continue;
      }
      // Bytes do not end a run of unknown characters, which comes after them: tokenizers' order.
      if (falls_back_ && append_bytes(text, symbols)) continue;
      if (unknown_ == TokenTable::kNone) continue;
      if (!fuses_unknown_) end_unknown();
      unknown_waits = true;
    }
    end_unknown();
    return symbols;
  }

  // Merges pairs, the lowest rank first and of the same the leftmost.
  Tokens merge(Tokens symbols) const {
    const auto size = std::ssize(symbols);
    std::vector<int64_t> before(size), after(size);
    for (int64_t i = 0; i < size; ++i) before[i] = i - 1, after[i] = i + 1;
    using Waiting = std::tuple<uint32_t, int64_t, int64_t>;  // rank, position, merged
    std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> queue;
    const auto look_at = [&](int64_t at) {
      if (at < 0 || after[at] >= size) return;
      if (const Merge* found = merges_.find(symbols[at], symbols[after[at]])) {
        queue.emplace(found->rank, at, found->merged);
      }
    };
    for (int64_t i = 0; i + 1 < size; ++i) look_at(i);
    while (!queue.empty()) {
      const auto [rank, at, merged] = queue.top();
      queue.pop();
      const int64_t next = after[at];
      if (symbols[at] == kGone || next >= size) continue;
      const Merge* found = merges_.find(symbols[at], symbols[next]);
      if (found == nullptr || found->merged != merged) continue;  // it was merged otherwise
      symbols[at] = merged;
      symbols[next] = kGone;
      after[at] = after[next];
      if (after[next] < size) before[after[next]] = at;
      look_at(before[at]);
      look_at(at);
    }
    std::erase(symbols, kGone);
    return symbols;
  }

  static constexpr int64_t kGone = -2;
  std::string prefix_, suffix_;
  bool fuses_unknown_, falls_back_, ignores_merges_;
  int64_t unknown_ = TokenTable::kNone;
  Merges merges_;
};

}  // namespace

std::unique_ptr<const WordModel> bpe_model(const Json& part, ModelTables tables) {
  if (const auto dropout = part.find("dropout");
      dropout != part.end() && !dropout->is_null() && dropout->get<double>() != 0) {
    throw Error("dropout, so a text has other tokens each time");
  }
  return std::make_unique<BpeModel>(part, std::move(tables));
}

}  // namespace edgespec
