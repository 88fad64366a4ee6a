#include "text/token_decoder.h"

#include <optional>

#include "text/byte_characters.h"

namespace edgespec {
namespace {

using Texts = std::vector<std::string>;

std::string joined(const Texts& texts, std::string_view between = "") {
  std::string whole;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) whole += between;
    whole += texts[i];
  }
  return whole;
}

void replace_all(std::string& text, std::string_view old, std::string_view by) {
  for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + by.size())) {
    text.replace(at, old.size(), by);
  }
}

void join_byte_characters(Texts& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    std::string own;
    bool is_bytes = true;
    for (const char32_t character : characters_of(token)) {
      const std::optional<uint8_t> byte = byte_of(character);
      is_bytes = is_bytes && byte;
      own += char(byte.value_or(0));
    }
    bytes += is_bytes ? own : token;
  }
  tokens = {utf8_of(characters_of(bytes))};
}

// The byte of "<0x0A>".
std::optional<char> named_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int letter = (c | 32) - 'a';
    const int digit = c >= '0' && c <= '9' ? c - '0' : letter >= 0 && letter < 6 ? letter + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return char(value);
}

// A run of bytes is its text, or U+FFFD for each where the whole run is no UTF-8.
void join_named_bytes(Texts& tokens) {
  Texts texts;
  std::string run;
  const auto end_run = [&] {
    if (run.empty()) return;
    if (first_invalid(run) == std::string::npos) {
      texts.push_back(run);
    } else {
      texts.insert(texts.end(), run.size(), utf8_of({&kReplacement, 1}));
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = named_byte(token)) {
      run += *byte;
    } else {
      end_run();
      texts.push_back(std::move(token));
    }
  }
  end_run();
  tokens = std::move(texts);
}

void write_spaces(Texts& tokens, char32_t mark, bool drops_first) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string text;
    for (const char32_t character : characters_of(tokens[i])) {
      if (character != mark) {
        append_utf8(text, character);
      } else if (i > 0 || !drops_first) {
        text += ' ';
      }
    }
    tokens[i] = std::move(text);
  }
}

void join_word_pieces(Texts& tokens, const std::string& prefix, bool cleans) {
  constexpr std::pair<const char*, const char*> kCleaned[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (i > 0 && token.starts_with(prefix)) {
      token.erase(0, prefix.size());
    } else if (i > 0) {
      token.insert(0, " ");
    }
    if (!cleans) continue;
    for (const auto& [old, by] : kCleaned) replace_all(token, old, by);
  }
}

void strip(std::string& token, char32_t content, size_t start, size_t stop) {
  std::u32string text = characters_of(token);
  size_t begin = 0, end = text.size();
  while (begin < start && begin < text.size() && text[begin] == content) ++begin;
  while (text.size() - end < stop && end > begin && text[end - 1] == content) --end;
  token = utf8_of(text.substr(begin, end - begin));
}

}  // namespace

TokenDecoder::TokenDecoder(const Json& part) {
  is_none_ = part.is_null();
  if (!is_none_) add(part);
}

std::string TokenDecoder::operator()(Texts tokens) const {
  if (is_none_) return joined(tokens, " ");
  for (const Step& step : steps_) step(tokens);
  return joined(tokens);
}

void TokenDecoder::add(const Json& part) {
  const std::string type = type_of(part);
  if (type == "Sequence") {
    for (const Json& inner : part.at("decoders")) add(inner);
  } else if (type == "ByteLevel") {
    steps_.push_back(join_byte_characters);
  } else if (type == "ByteFallback") {
    steps_.push_back(join_named_bytes);
  } else if (type == "Fuse") {
    steps_.push_back([](Texts& tokens) { tokens = {joined(tokens)}; });
  } else if (type == "Metaspace") {
    const char32_t mark = characters_in(part, "replacement").at(0);
    const bool drops = part.value("prepend_scheme", std::string("always")) != "never";
    steps_.push_back([=](Texts& tokens) { write_spaces(tokens, mark, drops); });
  } else if (type == "WordPiece") {
    const auto prefix = part.value("prefix", std::string("##"));
    const bool cleans = flag_in(part, "cleanup", true);
    steps_.push_back([=](Texts& tokens) { join_word_pieces(tokens, prefix, cleans); });
  } else if (type == "BPEDecoder") {
    const auto suffix = part.value("suffix", std::string("</w>"));
    steps_.push_back([=](Texts& tokens) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
      }
    });
  } else if (type == "Replace") {
    steps_.push_back([pattern = pattern_in(part),
                      content = part.at("content").get<std::string>()](Texts& tokens) {
      for (std::string& token : tokens) {
        const std::u32string text = characters_of(token);
        std::string made;
        size_t at = 0;
        for (const Span& match : pattern.matches(text)) {
          made += utf8_of(text.substr(at, match.begin - at)) + content;
          at = match.end;
        }
        token = made + utf8_of(text.substr(at));
      }
    });
  } else if (type == "Strip") {
    const char32_t content = characters_in(part, "content").at(0);
    const auto start = static_cast<size_t>(part.at("start").get<int64_t>());
    const auto stop = static_cast<size_t>(part.at("stop").get<int64_t>());
    steps_.push_back([=](Texts& tokens) {
      for (std::string& token : tokens) strip(token, content, start, stop);
    });
  } else {
    throw Error("the decoder " + type);
  }
}

}  // namespace edgespec
