#include "core/shown.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace edgespec {
namespace {

constexpr size_t kLongest = 60;

// The shortest digits that read back as this number, and the power of ten of the first.
struct Digits {
  std::string digits;
  int exponent;
};

Digits digits_of(double value) {
  std::array<char, 64> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  const std::string_view all(text.data(), end.ptr - text.data());
  const size_t e = all.find('e');
  Digits found{std::string(all.substr(0, e)), 0};
  std::erase(found.digits, '.');
  const std::string_view power = all.substr(e + (all[e + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), found.exponent);
  return found;
}

std::string with_exponent(const Digits& number) {
  std::string text = number.digits.substr(0, 1);
  if (number.digits.size() > 1) text += "." + number.digits.substr(1);
  std::array<char, 8> power;
  std::snprintf(power.data(), power.size(), "e%+03d", number.exponent);
  return text + power.data();
}

std::string with_point(Digits number) {
  if (number.exponent < 0) return "0." + std::string(-number.exponent - 1, '0') + number.digits;
  const size_t whole = number.exponent + 1;
  if (number.digits.size() < whole) number.digits.resize(whole, '0');
  std::string fraction = number.digits.substr(whole);
  return number.digits.substr(0, whole) + "." + (fraction.empty() ? "0" : fraction);
}

// The bytes of the UTF-8 character at the beginning of a text; 1 where there is none.
size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return std::min(bytes, text.size());
}

// The first characters of a text, at most so many.
std::string_view beginning(std::string_view text, size_t characters) {
  size_t bytes = 0;
  for (; bytes < text.size() && characters > 0; --characters) {
    bytes += character_bytes(text.substr(bytes));
  }
  return text.substr(0, bytes);
}

std::string escaped(std::string_view character, char quote) {
  const char c = character[0];
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c == '\\' || c == quote) return std::string("\\") + c;
  if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) return std::string(character);
  std::array<char, 8> code;
  std::snprintf(code.data(), code.size(), "\\x%02x", static_cast<unsigned char>(c));
  return code.data();
}

}  // namespace

std::string shown(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (std::signbit(value)) return "-" + shown(-value);
  if (value == 0) return "0.0";
  const Digits number = digits_of(value);
  return number.exponent < -4 || number.exponent >= 16 ? with_exponent(number) : with_point(number);
}

std::string shown(int64_t value) { return std::to_string(value); }

std::string shown(std::string_view text) {
  const std::string_view first = beginning(text, kLongest);
  const std::string whole = repr(first);
  if (first.size() == text.size()) return shortened(whole);
  return std::string(beginning(whole, kLongest - 1)) + "…";
}

std::string repr(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string whole(1, quote);
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    whole += escaped(text.substr(0, character_bytes(text)), quote);
  }
  return whole + quote;
}

std::string shortened(const std::string& text) {
  if (beginning(text, kLongest).size() == text.size()) return text;
  return std::string(beginning(text, kLongest - 1)) + "…";
}

}  // namespace edgespec
