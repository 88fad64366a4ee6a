// JSON whose numbers can be read as whole ones: nlohmann converts any float, also one that no whole
// number can hold.
#pragma once

#include <cmath>
#include <stdexcept>
#include <utility>

namespace edgespec {

// Throws std::runtime_error: a number is beyond those that whole numbers are written as floats for.
inline void check_holdable(double number) {
  constexpr double kLargest = 0x1p53;
  if (!(std::abs(number) <= kLargest)) throw std::runtime_error("a number is too large");
}

// Parses JSON as Json::parse does. Throws std::exception: it is none, or has such a number.
template <typename Json, typename Input>
Json parsed(Input&& input) {
  const auto check = [](int, typename Json::parse_event_t event, Json& value) {
    const bool is_float = event == Json::parse_event_t::value && value.is_number_float();
    if (is_float) check_holdable(value.template get<double>());
    return true;
  };
  return Json::parse(std::forward<Input>(input), check);
}

}  // namespace edgespec
