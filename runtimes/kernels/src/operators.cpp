// Registers the operators with a session, and says whether this processor can run them.
#include <map>
#include <mutex>

#include "halves.h"
#include "head.h"
#include "layers.h"

namespace edgespec {
namespace {

constexpr const char* kDomain = "edgespec";

template <typename Kernel>
ort::Status* add(const ort::Api* api, ort::CustomOpDomain* domain) {
  static const Operator<Kernel> described;
  return ort::add_operator(api, domain, &described);
}

// The domain with all of them, or why the runtime does not take one. Sessions of a runtime share it.
template <typename... Kernels>
ort::Status* operators(const ort::Api* api, ort::CustomOpDomain** domain) {
  static std::map<const ort::Api*, ort::CustomOpDomain*> made;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const auto found = made.find(api); found != made.end()) {
    *domain = found->second;
    return nullptr;
  }
  ort::Status* status = ort::create_domain(api, kDomain, domain);
  ((status = status ? status : add<Kernels>(api, *domain)), ...);
  if (status == nullptr) made[api] = *domain;
  return status;
}

}  // namespace
}  // namespace edgespec

extern "C" {

// What ONNX Runtime calls when a session is given this library.
__attribute__((visibility("default"))) edgespec::ort::Status* RegisterCustomOps(
    edgespec::ort::SessionOptions* options, const edgespec::ort::ApiBase* base) {
  using namespace edgespec;
  const ort::Api* api = base->get_api(ort::kVersion);
  if (api == nullptr) return ort::failure(base->get_api(1), "these kernels need ONNX Runtime 1.21");
  ort::CustomOpDomain* domain = nullptr;
  ort::Status* status = operators<HalfProduct<BFloat16>, HalfProduct<Float16>, Int8Product, Int8Head, Int8TableRows, NormedInt8Product,
                                  TurnedInt8Product, TurnedRowsAlone, SiluGate, GeluGate, RotaryTreeAttention,
                                  BiasedTreeAttention, SourceAttention, RotaryTreeSelfAttention,
                                  BiasedTreeSelfAttention, CrossAttention, SiluFeedForward,
                                  GeluFeedForward, ReluFeedForward>(api, &domain);
  return status ? status : ort::add_domain(api, options, domain);
}

__attribute__((visibility("default"))) int edgespec_kernels_run_here() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
}
