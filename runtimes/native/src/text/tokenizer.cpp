#include "text/tokenizer.h"

#include "core/paths.h"
#include "text/tokenizer_file.h"
#include "text/unicode.h"

namespace edgespec {
namespace {

const Json& part_of(const Json& parts, const char* name) {
  static const Json none;
  const auto found = parts.find(name);
  return found == parts.end() ? none : *found;
}

void check_settings(const Json& parts) {
  for (const char* name : {"truncation", "padding"}) {
    if (!part_of(parts, name).is_null()) {
      throw Error(std::string(name) + ", which changes the text");
    }
  }
}

}  // namespace

std::unique_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& path) {
  std::optional<TokenizerFile> file;
  try {
    file = read_tokenizer_file(path);
    if (!file->parts.is_object() || !part_of(file->parts, "model").is_object()) {
      throw Error("it has no model");
    }
  } catch (const std::exception& error) {
    throw Error(name_of(path) + " is not a tokenizer (" + error.what() +
                "); export the pair again");
  }
  try {
    return std::unique_ptr<const Tokenizer>(new Tokenizer(*std::move(file)));
  } catch (const Error& error) {
    throw UsageError(name_of(path) + " has " + error.what() +
                     ", which libedgespec does not read; give token ids, or use Python");
  } catch (const std::exception& error) {
    throw Error(name_of(path) + " is not a tokenizer (" + error.what() +
                "); export the pair again");
  }
}

Tokenizer::Tokenizer(TokenizerFile file)
    : normalizer_(part_of(file.parts, "normalizer")),
      model_(word_model(file.parts.at("model"), std::move(file.tables))),
      added_(part_of(file.parts, "added_tokens"), model_->vocabulary(), normalizer_),
      pre_tokenizer_(part_of(file.parts, "pre_tokenizer")),
      decoder_(part_of(file.parts, "decoder")) {
  check_settings(file.parts);
  const Json& around = part_of(file.parts, "post_processor");
  if (!around.is_null()) add_post_processor(around);
}

void Tokenizer::add_post_processor(const Json& part) {
  const std::string type = type_of(part);
  const auto add_around = [&](const Tokens& before, const Tokens& after) {
    before_.insert(before_.begin(), before.begin(), before.end());
    after_.insert(after_.end(), after.begin(), after.end());
  };
  if (type == "Sequence") {
    for (const Json& inner : part.at("processors")) add_post_processor(inner);
  } else if (type == "TemplateProcessing") {
    add_template(part);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    add_around({part.at("cls").at(1).get<int64_t>()}, {part.at("sep").at(1).get<int64_t>()});
  } else if (type != "ByteLevel") {  // which changes offsets alone
    throw Error("the post-processor " + type);
  }
}

// {"SpecialToken": …} and {"Sequence": {"id": "A"}}.
void Tokenizer::add_template(const Json& part) {
  Tokens before, after;
  bool has_text = false;
  for (const Json& piece : part.at("single")) {
    if (piece.contains("Sequence")) {
      if (has_text) throw Error("a template that has the text twice");
      has_text = true;
      continue;
    }
    const auto name = piece.at("SpecialToken").at("id").get<std::string>();
    for (const int64_t id : part.at("special_tokens").at(name).at("ids").get<Tokens>()) {
      (has_text ? after : before).push_back(id);
    }
  }
  if (!has_text) throw Error("a template without the text");
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
}

Tokens Tokenizer::encode(std::string_view given, Special special) const {
  const std::u32string text = characters_of(given);
  Tokens tokens;
  if (special == Special::kAround) tokens = before_;
  for (const auto& [token, span] : added_.parts(text, false, special != Special::kText)) {
    if (token) {
      tokens.push_back(*token);
      continue;
    }
    const std::u32string normalized = normalizer_(text.substr(span.begin, span.end - span.begin));
    encode_normalized(normalized, span.begin == 0, special != Special::kText, tokens);
  }
  if (special == Special::kAround) tokens.insert(tokens.end(), after_.begin(), after_.end());
  return tokens;
}

void Tokenizer::encode_normalized(std::u32string_view text, bool is_first, bool special,
                                  Tokens& tokens) const {
  for (const auto& [token, span] : added_.parts(text, true, special)) {
    if (token) {
      tokens.push_back(*token);
      continue;
    }
    const bool first = is_first && span.begin == 0;
    for (const Word& word :
         pre_tokenizer_({std::u32string(text.substr(span.begin, span.end - span.begin)), first})) {
      model_->encode(utf8_of(word.text), tokens);
    }
  }
}

std::string Tokenizer::decode(const Tokens& tokens, bool skip_special) const {
  std::vector<std::string> texts;
  for (const int64_t id : tokens) {
    std::string text;
    if (const AddedToken* added = added_.find(id)) {
      text = utf8_of(added->found);
    } else if (const auto known = model_->vocabulary().text(id)) {
      text = *known;
    } else {
      continue;
    }
    if (!skip_special || !added_.is_special(text)) texts.push_back(std::move(text));
  }
  return decoder_(std::move(texts));
}

std::vector<ControlToken> Tokenizer::control_tokens(std::u32string_view text) const {
  std::vector<ControlToken> found;
  const auto add = [&](int64_t token, Span span) {
    if (added_.find(token)->is_special) found.push_back({token, span});
  };
  for (const auto& [token, span] : added_.parts(text, false, true)) {
    if (token) {
      add(*token, span);
      continue;
    }
    const std::u32string_view part = text.substr(span.begin, span.end - span.begin);
    size_t at = 0;  // where the rest of the part begins
    for (const auto& [inner, unused] :
         added_.parts(normalizer_(std::u32string(part)), true, true)) {
      if (!inner) continue;
      const std::u32string& name = added_.find(*inner)->content;
      const size_t begin = part.find(name, at);
      if (begin == std::u32string_view::npos) continue;
      at = begin + name.size();
      add(*inner, {span.begin + begin, span.begin + at});
    }
  }
  return found;
}

}  // namespace edgespec
