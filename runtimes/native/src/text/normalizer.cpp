#include "text/normalizer.h"

#include <array>
#include <memory>

#include "text/byte_characters.h"
#include "text/chars_map.h"
#include "text/unicode.h"

namespace edgespec {
namespace {

constexpr size_t kMostGrowth = 1000;  // times: texts that a tokenizer makes longer are refused

// Each character alone.
template <typename Function>
std::u32string mapped(std::u32string_view text, Function append) {
  std::u32string made;
  made.reserve(text.size());
  for (const char32_t character : text) append(made, character);
  return made;
}

std::u32string without(std::u32string_view text, Property property) {
  return mapped(text, [property](std::u32string& made, char32_t c) {
    if (!has(property, c)) made += c;
  });
}

// Removed characters, and those that become a space.
std::u32string cleaned(std::u32string_view text, Property removed, Property space) {
  return mapped(text, [=](std::u32string& made, char32_t c) {
    if (has(space, c)) {
      made += ' ';
    } else if (!has(removed, c)) {
      made += c;
    }
  });
}

std::u32string lower_case(std::u32string_view text) { return mapped(text, append_lower_case); }

std::u32string spaced_chinese(std::u32string_view text) {
  return mapped(text, [](std::u32string& made, char32_t c) {
    const bool is_chinese = has(Property::kChinese, c);
    if (is_chinese) made += ' ';
    made += c;
    if (is_chinese) made += ' ';
  });
}

std::u32string stripped(std::u32string_view text, bool left, bool right) {
  while (left && !text.empty() && has(Property::kSpace, text.front())) text.remove_prefix(1);
  while (right && !text.empty() && has(Property::kSpace, text.back())) text.remove_suffix(1);
  return std::u32string(text);
}

std::u32string replaced(std::u32string_view text, const Regex& pattern,
                        std::u32string_view content) {
  std::u32string made;
  size_t at = 0;
  for (const Span& match : pattern.matches(text)) {
    made += text.substr(at, match.begin - at);
    made += content;
    at = match.end;
  }
  made += text.substr(at);
  return made;
}

std::u32string bert(std::u32string text, const std::array<bool, 4>& does) {
  const auto [clean, chinese, accents, lower] = does;
  if (clean) text = cleaned(text, Property::kBertRemoved, Property::kBertSpace);
  if (chinese) text = spaced_chinese(text);
  if (accents) text = without(decomposed(text, Decomposition::kCanonical), Property::kBertAccent);
  if (lower) text = lower_case(text);
  return text;
}

}  // namespace

Normalizer::Normalizer(const Json& part) {
  if (!part.is_null()) add(part);
}

std::u32string Normalizer::operator()(std::u32string text) const {
  const size_t most = kMostGrowth * (text.size() + 1);
  for (const Step& step : steps_) {
    text = step(std::move(text));
    if (text.size() > most) throw Error("the tokenizer makes a text more than 1000 times as long");
  }
  return text;
}

void Normalizer::add(const Json& part) {
  const std::string type = type_of(part);
  const auto form = [&](Decomposition how, bool compose) {
    steps_.push_back([=](std::u32string text) {
      text = decomposed(text, how);
      return compose ? composed(text) : text;
    });
  };
  if (type == "Sequence") {
    for (const Json& inner : part.at("normalizers")) add(inner);
  } else if (type == "NFC" || type == "NFD") {
    form(Decomposition::kCanonical, type == "NFC");
  } else if (type == "NFKC" || type == "NFKD") {
    form(Decomposition::kCompatible, type == "NFKC");
  } else if (type == "Lowercase") {
    steps_.push_back([](std::u32string text) { return lower_case(text); });
  } else if (type == "StripAccents") {
    steps_.push_back([](std::u32string text) { return without(text, Property::kMark); });
  } else if (type == "Nmt") {
    steps_.push_back([](std::u32string text) {
      return cleaned(text, Property::kNmtRemoved, Property::kNmtSpace);
    });
  } else if (type == "Strip") {
    const bool left = flag_in(part, "strip_left", true), right = flag_in(part, "strip_right", true);
    steps_.push_back([=](std::u32string text) { return stripped(text, left, right); });
  } else if (type == "Prepend") {
    const std::u32string before = characters_in(part, "prepend");
    steps_.push_back([=](std::u32string text) { return text.empty() ? text : before + text; });
  } else if (type == "Replace") {
    steps_.push_back([pattern = pattern_in(part), content = characters_in(part, "content")](
                         std::u32string text) { return replaced(text, pattern, content); });
  } else if (type == "Precompiled") {
    const Json& map = part.at("precompiled_charsmap");
    if (map.is_null() || map.get<std::string>().empty()) return;
    steps_.push_back([table = std::make_shared<const CharsMap>(map.get<std::string>())](
                         std::u32string text) { return (*table)(text); });
  } else if (type == "BertNormalizer") {
    const bool lower = flag_in(part, "lowercase", true);
    const std::array<bool, 4> does = {flag_in(part, "clean_text", true),
                                      flag_in(part, "handle_chinese_chars", true),
                                      flag_in(part, "strip_accents", lower), lower};
    steps_.push_back([does](std::u32string text) { return bert(std::move(text), does); });
  } else if (type == "ByteLevel") {
    steps_.push_back([](std::u32string text) { return as_byte_characters(utf8_of(text)); });
  } else {
    throw Error("the normalizer " + type);
  }
}

}  // namespace edgespec
