#include "device/machine.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "artifact/canonical_json.h"
#include "artifact/sha256.h"

#ifdef __unix__
#include <sys/utsname.h>
#include <unistd.h>
#endif

namespace edgespec {
namespace {

constexpr const char* kKernels = "edgespec-kernels " EDGESPEC_KERNELS_VERSION;
constexpr const char* kAttention = "ORT_GQA_DISABLE_FLASH_ATTENTION";
// What /proc/cpuinfo says about a processor, on x86 and on ARM.
constexpr std::array kFields = {"model name",   "cpu family",      "model",    "stepping",
                                "flags",        "CPU implementer", "CPU part", "CPU variant",
                                "CPU revision", "Features"};

std::string stripped(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

// The first processor's fields.
std::map<std::string, std::string> cpuinfo() {
  std::map<std::string, std::string> known;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon != line.npos)
      known[stripped(line.substr(0, colon))] = stripped(line.substr(colon + 1));
  }
  return known;
}

std::string architecture() {
#ifdef __unix__
  utsname names;
  if (uname(&names) == 0) return names.machine;
#endif
  return "";
}

int64_t cores() {
#ifdef __unix__
  return sysconf(_SC_NPROCESSORS_ONLN);  // as Python's os.cpu_count()
#else
  return std::thread::hardware_concurrency();
#endif
}

// A processor's name, which ARM lacks, and the digest of its model and instruction sets.
std::pair<std::string, std::string> processor() {
  std::map<std::string, std::string> known = cpuinfo();
  std::string features;
  for (const char* field : kFields) {
    features += (field == kFields.front() ? "" : " ") + known[field];
  }
  const std::string& name = known["model name"];
  return {name.empty() ? "processor" : name, sha256(features)};
}

// What decides between kernels of attention, if it is set.
std::string attention_setting() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets the environment.
  const char* value = std::getenv(kAttention);
  return value == nullptr ? "" : std::string(" ") + kAttention + "=" + value;
}

}  // namespace

std::string machine_digest(const std::string& onnxruntime_version, int threads) {
  const auto [name, features] = processor();
  const std::map<std::string, std::string> record = {
      {"runtime", json_text("onnxruntime " + onnxruntime_version + attention_setting())},
      {"provider", json_text("CPUExecutionProvider")},
      {"provider_version", json_text(kKernels)},
      {"hardware", json_text("")},
      {"threads", threads == 0 ? "null" : std::to_string(threads)},
      {"cores", threads == 0 ? std::to_string(cores()) : "null"},
      {"architecture", json_text(architecture())},
      {"processor", json_text(name)},
      {"processor_features", json_text(features)},
      {"draft", "null"}};
  std::string all;
  for (const auto& [field, value] : record) {  // as Python's json.dumps writes it
    all += (all.empty() ? "" : ", ") + json_text(field) + ": " + value;
  }
  return sha256("{" + all + "}");
}

std::string own_digest(const std::string& machine_digest) {
  return sha256("libedgespec 3 on " + machine_digest);
}

std::string machine_sentence(const std::string& onnxruntime_version, int threads) {
  const auto [name, features] = processor();
  return "libedgespec " EDGESPEC_VERSION ", onnxruntime " + onnxruntime_version + ", " + kKernels +
         ", " +
         (threads == 0 ? "default threads of " + std::to_string(cores()) + " cores"
                       : std::to_string(threads) + " threads") +
         ", " + architecture() + " " + name + " #" + features.substr(0, 8);
}

}  // namespace edgespec
