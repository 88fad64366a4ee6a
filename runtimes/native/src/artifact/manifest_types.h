// The types of a manifest's fields, as Python reads them (edgespec/artifact/typed_json.py).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace edgespec {

// As Python's repr writes a value, cut to 60 characters.
std::string shown_json(const nlohmann::ordered_json& value);

// Throws std::runtime_error, with Python's sentences: a field has another type, is missing or
// unknown.
void check_types(const nlohmann::ordered_json& manifest);
// The same of another file, which Python reads into the class `kind`. `where`: its name.
void check_types(const char* kind, const nlohmann::ordered_json& data, const std::string& where);

}  // namespace edgespec
