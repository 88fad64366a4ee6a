#include "artifact/manifest_types.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/shown.h"

namespace edgespec {
namespace {

using Json = nlohmann::ordered_json;

// By the classes' names: {"fields": {name: kind}, "later": [name]}.
constexpr const char* kClasses =
    "{"
#include "artifact/manifest_types.inc"
    "}";

constexpr size_t kMostShown = 400;  // bytes, of which 60 characters stay

// As Python's repr writes a value; what is cut off later need not be whole.
void add_repr(const Json& value, std::string& text) {
  if (text.size() > kMostShown) return;
  if (value.is_null()) text += "None";
  if (value.is_boolean()) text += value.get<bool>() ? "True" : "False";
  if (value.is_number_float()) text += shown(value.get<double>());
  if (value.is_number_integer()) text += value.dump();
  if (value.is_string()) text += repr(value.get_ref<const std::string&>());
  if (!value.is_structured()) return;
  const char* separator = "";
  text += value.is_object() ? "{" : "[";
  for (const auto& [key, item] : value.items()) {
    if (text.size() > kMostShown) return;
    text += separator;
    if (value.is_object()) text += repr(key) + ": ";
    add_repr(item, text);
    separator = ", ";
  }
  text += value.is_object() ? "}" : "]";
}

// A kind that is a word, or the name of a class, which no plain value fits.
bool fits(const Json& kind, const Json& value) {
  if (kind == "null") return value.is_null();
  if (kind == "bool") return value.is_boolean();
  if (kind == "str") return value.is_string();
  if (kind == "int") return value.is_number_integer();
  return kind == "float" && value.is_number();
}

class Check {
 public:
  Check() : classes_(Json::parse(kClasses)) {}

  void check(const Json& kind, const Json& value, const std::string& where) const {
    if (kind == "object") return;
    if (kind.is_object()) return check_parts(kind, value, where);
    const auto known = classes_.find(kind.get_ref<const std::string&>());
    if (known != classes_.end()) return check_object(*known, value, where);
    if (!fits(kind, value)) throw std::runtime_error(where + " is " + shown_json(value));
  }

 private:
  void check_parts(const Json& kind, const Json& value, const std::string& where) const {
    if (kind.contains("any")) {
      const Json& parts = kind["any"];
      const auto fitting = std::ranges::find_if(
          parts, [&](const Json& part) { return part.is_string() && fits(part, value); });
      return check(fitting == parts.end() ? parts[0] : *fitting, value, where);
    }
    if (kind.contains("dict") ? !value.is_object() : !value.is_array()) {
      throw std::runtime_error(where + " is " + shown_json(value));
    }
    for (const auto& [key, item] : value.items()) {
      if (kind.contains("dict")) {
        check(kind["dict"], item, key);
      } else {
        check(kind["list"], item, where);
      }
    }
  }

  void check_object(const Json& known, const Json& value, const std::string& where) const {
    const Json &fields = known["fields"], &later = known["later"];
    if (!value.is_object()) {
      throw std::runtime_error(where + " is " + shown_json(value) + ", not an object");
    }
    std::vector<std::string> missing, unknown;
    for (const auto& [name, _] : fields.items()) {
      const bool is_later = std::ranges::find(later, Json(name)) != later.end();
      if (!is_later && !value.contains(name)) missing.push_back(name);
    }
    for (const auto& [name, _] : value.items()) {
      if (!fields.contains(name)) unknown.push_back(name);
    }
    if (!missing.empty()) {
      throw std::runtime_error(where + " lacks " + *std::ranges::min_element(missing));
    }
    if (!unknown.empty()) {
      const std::string& first = *std::ranges::min_element(unknown);
      throw std::runtime_error(where + " has the unknown field " + shown(std::string_view(first)));
    }
    for (const auto& [name, item] : value.items()) check(fields[name], item, name);
  }

  Json classes_;
};

}  // namespace

std::string shown_json(const Json& value) {
  if (value.is_string()) return shown(std::string_view(value.get_ref<const std::string&>()));
  std::string text;
  add_repr(value, text);
  return shortened(text);
}

void check_types(const nlohmann::ordered_json& manifest) {
  Json fields = manifest;
  if (fields.is_object()) fields.erase("digest");
  check_types("Manifest", fields, "manifest");
}

void check_types(const char* kind, const nlohmann::ordered_json& data, const std::string& where) {
  Check().check(kind, data, where);
}

}  // namespace edgespec
