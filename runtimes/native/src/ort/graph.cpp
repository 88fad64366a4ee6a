#include "ort/graph.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/paths.h"
#include "core/shown.h"
#include "ort/packed_weights.h"

namespace edgespec {
namespace {

// Idle threads spin this long before they sleep: target and draft alternate, and the idle model's
// threads must not spin on the cores that the other one uses.
constexpr std::pair kSpinning = {"session.intra_op.spin_duration_us", "100"};
constexpr std::pair kNoSpinning = {"session.force_spinning_stop", "1"};  // durations need 1.26
// Processors without VNNI add pairs of products of 8 bits with saturation: another model than
// elsewhere. With this, ONNX Runtime makes the weights unsigned there; 1.25 ends the process.
constexpr std::pair kExactInt8 = {"session.x64quantprecision", "1"};

OrtOwned<OrtSessionOptions> options_of(const OrtRuntime& runtime, const Kernels& kernels,
                                       int threads) {
  const OrtApi& api = runtime.api();
  OrtSessionOptions* made = nullptr;
  runtime.check(api.CreateSessionOptions(&made));
  OrtOwned<OrtSessionOptions> options(made, api.ReleaseSessionOptions);
  const auto add = [&](std::pair<const char*, const char*> entry) {
    runtime.check(api.AddSessionConfigEntry(made, entry.first, entry.second));
  };
  runtime.check(api.SetIntraOpNumThreads(made, threads));
  runtime.check(api.SetSessionLogSeverityLevel(made, ORT_LOGGING_LEVEL_FATAL));
  add(runtime.since(1, 26) ? kSpinning : kNoSpinning);
  if (runtime.since(1, 30)) add(kExactInt8);
  runtime.check(kernels.add_operators(made, runtime.base()), "the kernels cannot be used",
                "give another ONNX Runtime");
  return options;
}

OrtOwned<OrtSession> opened(const OrtRuntime& runtime, const Kernels& kernels,
                            const GraphFile& file, int threads) {
  const auto options = options_of(runtime, kernels, threads);
  PackedWeights packed(kernels, file.path, file.sha256);
  OrtSession* made = nullptr;
  runtime.check(runtime.api().CreateSession(runtime.env(), file.path.c_str(), options.get(), &made),
                name_of(file.path) + " cannot be loaded");
  OrtOwned<OrtSession> session(made, runtime.api().ReleaseSession);
  packed.keep();
  return session;
}

}  // namespace

Graph::Graph(const OrtRuntime& runtime, const Kernels& kernels, const GraphFile& file, int threads)
    : runtime_(runtime), path_(file.path), session_(opened(runtime, kernels, file, threads)) {
  read_names();
}

std::vector<int64_t> Graph::shape_of(const std::string& output) const {
  const auto found = shapes_.find(output);
  return found == shapes_.end() ? std::vector<int64_t>() : found->second;
}

int64_t Graph::width_of(const std::string& output) const {
  const auto shape = shape_of(output);
  return shape.size() == 2 ? std::max<int64_t>(shape[1], 0) : 0;
}

std::vector<int64_t> Graph::said(const char* name, int64_t least) const {
  const OrtApi& api = runtime_.api();
  OrtModelMetadata* made = nullptr;
  runtime_.check(api.SessionGetModelMetadata(session_.get(), &made));
  const OrtOwned<OrtModelMetadata> all(made, api.ReleaseModelMetadata);
  char* found = nullptr;
  runtime_.check(
      api.ModelMetadataLookupCustomMetadataMap(made, runtime_.allocator(), name, &found));
  const std::string text = found == nullptr ? "" : found;
  if (found != nullptr) runtime_.check(api.AllocatorFree(runtime_.allocator(), found));
  std::vector<int64_t> numbers;
  const char *next = text.data(), *last = next + text.size();
  while (next <= last) {
    const auto [end, error] = std::from_chars(next, last, numbers.emplace_back());
    if (error != std::errc() || numbers.back() < least || (end != last && *end != ',')) break;
    if (end == last) return numbers;
    next = end + 1;
  }
  throw Error(name_of(path_) + " has " + shown(std::string_view(text)) + " as its " + name +
              "; export the pair again");
}

void Graph::read_names() {
  const OrtApi& api = runtime_.api();
  const auto own = [&](char* name) {
    std::string copy(name);
    runtime_.check(api.AllocatorFree(runtime_.allocator(), name));
    return copy;
  };
  size_t count = 0;
  char* name = nullptr;
  runtime_.check(api.SessionGetOverridableInitializerCount(session_.get(), &count));
  for (size_t i = 0; i < count; ++i) {
    runtime_.check(
        api.SessionGetOverridableInitializerName(session_.get(), i, runtime_.allocator(), &name));
    optional_inputs_.insert(own(name));
  }
  runtime_.check(api.SessionGetInputCount(session_.get(), &count));
  for (size_t i = 0; i < count; ++i) {
    runtime_.check(api.SessionGetInputName(session_.get(), i, runtime_.allocator(), &name));
    inputs_.insert(own(name));
  }
  runtime_.check(api.SessionGetOutputCount(session_.get(), &count));
  for (size_t i = 0; i < count; ++i) {
    runtime_.check(api.SessionGetOutputName(session_.get(), i, runtime_.allocator(), &name));
    outputs_.push_back(own(name));
    add_shape(i, outputs_.back());
  }
}

void Graph::add_shape(size_t output, const std::string& name) {
  const OrtApi& api = runtime_.api();
  OrtTypeInfo* type = nullptr;
  runtime_.check(api.SessionGetOutputTypeInfo(session_.get(), output, &type));
  const OrtOwned<OrtTypeInfo> owned(type, api.ReleaseTypeInfo);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  runtime_.check(api.CastTypeInfoToTensorInfo(type, &tensor));
  size_t rank = 0;
  if (tensor != nullptr) runtime_.check(api.GetDimensionsCount(tensor, &rank));
  std::vector<int64_t> shape(rank);
  if (rank > 0) runtime_.check(api.GetDimensions(tensor, shape.data(), rank));
  shapes_[name] = std::move(shape);
}

}  // namespace edgespec
