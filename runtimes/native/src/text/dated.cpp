#include "text/dated.h"

#include <cstdio>

#include "core/error.h"

namespace edgespec {
namespace {

constexpr std::string_view kBegin = "\xEE\x80\x80", kEnd = "\xEE\x80\x81";
constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                   "May",       "June",     "July",     "August",
                                   "September", "October",  "November", "December"};
constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};

std::tm local_time(std::time_t now) {
  std::tm time = {};
#if defined(_WIN32)
  localtime_s(&time, &now);
#else
  localtime_r(&now, &time);
#endif
  return time;
}

std::string written(const char* format, int value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string date_part(const std::string& name, const std::tm& time) {
  if (name == "Y") return written("%d", time.tm_year + 1900);
  if (name == "y") return written("%02d", time.tm_year % 100);
  if (name == "m") return written("%02d", time.tm_mon + 1);
  if (name == "d") return written("%02d", time.tm_mday);
  if (name == "-d") return written("%d", time.tm_mday);
  if (name == "e") return written("%2d", time.tm_mday);
  if (name == "B") return kMonths[time.tm_mon];
  if (name == "b") return std::string(kMonths[time.tm_mon]).substr(0, 3);
  if (name == "A") return kDays[time.tm_wday];
  if (name == "a") return std::string(kDays[time.tm_wday]).substr(0, 3);
  if (name == "H") return written("%02d", time.tm_hour);
  if (name == "M") return written("%02d", time.tm_min);
  if (name == "S") return written("%02d", time.tm_sec);
  if (name == "%") return "%";
  throw UsageError("this model's chat format has a date with %" + name +
                   ", which is not known here; ask from Python");
}

std::string date(const std::string& pattern, const std::tm& time) {
  std::string text;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%' || at + 1 == pattern.size()) {
      text += pattern[at];
      continue;
    }
    const size_t length = pattern[at + 1] == '-' ? 2 : 1;
    text += date_part(pattern.substr(at + 1, length), time);
    at += length;
  }
  return text;
}

}  // namespace

std::string dated(const std::string& text, std::time_t now) {
  const std::tm time = local_time(now);
  std::string whole;
  size_t at = 0;
  for (size_t begin = text.find(kBegin); begin != std::string::npos;
       begin = text.find(kBegin, at)) {
    const size_t end = text.find(kEnd, begin);
    if (end == std::string::npos) break;
    const size_t pattern = begin + kBegin.size();
    whole += text.substr(at, begin - at) + date(text.substr(pattern, end - pattern), time);
    at = end + kEnd.size();
  }
  return whole + text.substr(at);
}

}  // namespace edgespec
