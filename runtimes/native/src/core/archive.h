// Values as bytes, and back: one function of an object both writes and reads what a saved session
// has of it.
//
// Numbers are written as processors with the low byte first have them. What is read is not trusted:
// sizes are compared with what is left, and whoever reads checks the values.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace edgespec {

class Archive {
 public:
  virtual ~Archive() = default;
  // Whether values are read, not written.
  virtual bool reads() const = 0;
  // Copies memory out or in. Throws Error: it cannot be written, or there are not so many bytes.
  virtual void bytes(void* data, uint64_t count) = 0;
  // How many bytes are left to be read.
  virtual uint64_t left() const = 0;

  template <typename... Values>
  void operator()(Values&... values) {
    (value(values), ...);
  }
  // A number of an enumeration from 0 to `last`.
  template <typename Name>
  void choice(Name& name, Name last) {
    auto number = static_cast<int32_t>(name);
    value(number);
    check(0 <= number && number <= static_cast<int32_t>(last));
    name = static_cast<Name>(number);
  }
  // Throws Error where something that was read cannot be.
  void check(bool is_possible) const {
    if (!is_possible) throw Error("a value in it is impossible");
  }

 private:
  template <typename Number>
    requires(std::integral<Number> || std::floating_point<Number>) && (!std::same_as<Number, bool>)
  void value(Number& number) {
    bytes(&number, sizeof number);
  }
  void value(bool& is) {
    uint8_t byte = is ? 1 : 0;
    value(byte);
    is = byte != 0;
  }
  void value(std::string& text) {
    text.resize(count_of(text.size(), 1));
    bytes(text.data(), text.size());
  }
  template <typename First, typename Second>
  void value(std::pair<First, Second>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <typename Value>
  void value(std::optional<Value>& optional) {
    bool has = optional.has_value();
    value(has);
    if (!has) return optional.reset();
    if (!optional) optional.emplace();
    value(*optional);
  }
  template <typename Value>
  void value(std::vector<Value>& values) {
    values.resize(count_of(values.size(), std::is_arithmetic_v<Value> ? sizeof(Value) : 1));
    if constexpr (std::is_arithmetic_v<Value>) {
      bytes(values.data(), values.size() * sizeof(Value));
    } else {
      for (Value& one : values) value(one);
    }
  }
  // Objects say what they have.
  template <typename Object>
    requires requires(Object& object, Archive& archive) { object.archive(archive); }
  void value(Object& object) {
    object.archive(*this);
  }

  // A number of values of at least `least` bytes each.
  uint64_t count_of(uint64_t count, uint64_t least) {
    value(count);
    check(!reads() || count <= left() / least);
    return count;
  }
};

// Writes into memory.
class MemoryWriter : public Archive {
 public:
  bool reads() const override { return false; }
  void bytes(void* data, uint64_t count) override {
    written.append(static_cast<const char*>(data), count);
  }
  uint64_t left() const override { return 0; }

  std::string written;
};

// Reads from memory, which must outlive it.
class MemoryReader : public Archive {
 public:
  explicit MemoryReader(std::string_view bytes) : bytes_(bytes) {}

  bool reads() const override { return true; }
  void bytes(void* data, uint64_t count) override {
    if (count > bytes_.size()) throw Error("it is cut short");
    std::copy_n(bytes_.data(), count, static_cast<char*>(data));
    bytes_.remove_prefix(count);
  }
  uint64_t left() const override { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

}  // namespace edgespec
