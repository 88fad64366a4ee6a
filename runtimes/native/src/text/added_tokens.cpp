#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace edgespec {

void AddedTokens::Names::add(std::u32string_view name, int64_t id) {
  size_t node = 0;
  for (const char32_t character : name) {
    const auto [found, is_new] = nodes_[node].next.try_emplace(character, nodes_.size());
    node = found->second;
    if (is_new) nodes_.emplace_back();
  }
  if (!name.empty() && !nodes_[node].id) nodes_[node].id = id;
}

auto AddedTokens::Names::longest(std::u32string_view text) const -> std::optional<Found> {
  std::optional<Found> found;
  size_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto next = nodes_[node].next.find(text[i]);
    if (next == nodes_[node].next.end()) break;
    node = next->second;
    if (nodes_[node].id) found = {*nodes_[node].id, i + 1};
  }
  return found;
}

namespace {

// The ids are those that the package tokenizers would give: the vocabulary's, or the next ones.
void check_ids(const Json& part, const TokenTable& vocabulary) {
  std::map<std::string, int64_t> given;
  int64_t next = vocabulary.size();
  for (const Json& token : part) {
    const auto content = token.at("content").get<std::string>();
    int64_t id = vocabulary.find(content);
    if (const auto found = given.find(content); found != given.end()) id = found->second;
    if (content.empty()) continue;
    if (id == TokenTable::kNone) id = next;
    if (id != token.at("id").get<int64_t>()) {
      throw Error("an added token with an id that is not its own: " + content);
    }
    given[content] = id;
    next = std::max(next, id + 1);
  }
}

}  // namespace

AddedTokens::AddedTokens(const Json& part, const TokenTable& vocabulary,
                         const Normalizer& normalizer) {
  check_ids(part, vocabulary);
  // Special ones first: of two with one spelling, the first is found.
  for (const bool special : {true, false}) {
    for (const Json& token : part) {
      if (flag_in(token, "special", false) != special) continue;
      AddedToken added{token.at("id").get<int64_t>(),
                       characters_in(token, "content"),
                       {},
                       flag_in(token, "single_word", false),
                       flag_in(token, "lstrip", false),
                       flag_in(token, "rstrip", false),
                       flag_in(token, "normalized", !special),
                       special};
      if (added.content.empty()) continue;
      added.found = added.is_normalized ? normalizer(added.content) : added.content;
      if (special) special_.insert(utf8_of(added.content));
      (added.is_normalized ? normalized_ : plain_).add(added.found, added.id);
      all_.insert_or_assign(added.id, std::move(added));
    }
  }
}

const AddedToken* AddedTokens::find(int64_t id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<TextPart> AddedTokens::parts(std::u32string_view text, bool normalized,
                                         bool special) const {
  const auto is_word = [&](size_t at) {
    return at < text.size() && has(Property::kRustWord, text[at]);
  };
  const auto is_space = [&](size_t at) { return has(Property::kSpace, text[at]); };
  std::vector<TextPart> parts;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto found = (normalized ? normalized_ : plain_).longest(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = all_.at(found->id);
    size_t begin = at, end = at + found->length;
    at = end;
    if (token.is_special && !special) continue;
    if (token.single_word && (is_word(end) || (begin > 0 && is_word(begin - 1)))) continue;
    while (token.takes_left && begin > done && is_space(begin - 1)) --begin;
    while (token.takes_right && end < text.size() && is_space(end)) ++end;
    if (done < begin) parts.push_back({std::nullopt, {done, begin}});
    parts.push_back({token.id, {begin, end}});
    done = end;
  }
  if (done != text.size()) parts.push_back({std::nullopt, {done, text.size()}});
  return parts;
}

}  // namespace edgespec
