#include "artifact/canonical_json.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace edgespec {
namespace {

using Json = nlohmann::json;

// Is told the values of a text one by one, and writes each canonically. The spelling of a number is
// known here only: as a double, 1e-05 and 0.00001 are the same.
class Writer : public nlohmann::json_sax<Json> {
 public:
  explicit Writer(const std::string& left_out) : left_out_(left_out) {}

  const std::string& text() const { return text_; }

  bool null() override { return value("null"); }
  bool boolean(bool is) override { return value(is ? "true" : "false"); }
  bool number_integer(number_integer_t number) override { return value(std::to_string(number)); }
  bool number_unsigned(number_unsigned_t number) override { return value(std::to_string(number)); }
  bool number_float(number_float_t, const string_t& spelled) override { return value(spelled); }
  bool string(string_t& text) override { return value(json_text(text)); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool key(string_t& name) override {
    open_.back().key = name;
    return true;
  }
  bool end_object() override {
    std::map<std::string, std::string> members = std::move(open_.back().members);
    open_.pop_back();
    if (open_.empty()) members.erase(left_out_);
    std::string all;
    for (const auto& [name, member] : members) {
      all += (all.empty() ? "" : ",") + json_text(name) + ":" + member;
    }
    return value("{" + all + "}");
  }
  bool end_array() override {
    const std::string items = std::move(open_.back().items);
    open_.pop_back();
    return value("[" + items + "]");
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    throw std::runtime_error(error.what());
  }

 private:
  // An object or array whose end has not come: its values so far.
  struct Open {
    std::string key;                             // of the object's next value
    std::map<std::string, std::string> members;  // of an object; of equal keys the last counts
    std::string items;                           // of an array
  };

  bool begin() {
    open_.emplace_back();
    return true;
  }
  bool value(const std::string& text) {
    if (open_.empty()) {
      text_ = text;
      return true;
    }
    Open& inside = open_.back();
    inside.members[inside.key] = text;
    inside.items += (inside.items.empty() ? "" : ",") + text;
    return true;
  }

  const std::string& left_out_;
  std::vector<Open> open_;
  std::string text_;
};

}  // namespace

std::string canonical_json(std::string_view text, const std::string& left_out) {
  Writer writer(left_out);
  Json::sax_parse(text, &writer);
  return writer.text();
}

std::string json_text(const std::string& text) { return Json(text).dump(); }

}  // namespace edgespec
