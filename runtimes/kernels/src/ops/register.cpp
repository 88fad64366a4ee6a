// What the library of one target shows: its operators, for a session, and its sampling arithmetic.
#include <map>
#include <mutex>
#include <string>

#include "kernels/sampling.h"
#include "ops/attention_ops.h"
#include "ops/fused_blocks.h"
#include "ops/half_ops.h"
#include "ops/head_op.h"
#include "ops/norm_op.h"
#include "ops/product_ops.h"
#include "ops/row_ops.h"
#include "ort/export.h"
#include "ort/op.h"
#include "schema/operators.h"

namespace edgespec {
namespace {

template <typename Kernel>
OrtStatus* add(const OrtApi* api, OrtCustomOpDomain* domain) {
  static const CustomOp<Kernel> op;
  return api->CustomOpDomain_Add(domain, &op);
}

// Kernels of the domain.
template <typename... Kernels>
struct KernelList {
  static constexpr size_t count = sizeof...(Kernels);

  static OrtStatus* add_to(OrtCustomOpDomain* domain, const OrtApi* api) {
    OrtStatus* status = nullptr;
    ((status = status ? status : add<Kernels>(api, domain)), ...);
    return status;
  }
};

// `Kernel` of each operator of a list.
template <template <typename> typename Kernel, typename... Operators>
KernelList<Kernel<Operators>...> each_of(List<Operators...>);

// The domain with all kernels; sessions of one runtime share it. Returns the runtime's error if it
// refuses one.
template <typename... Lists>
OrtStatus* domain_of(const OrtApi* api, OrtCustomOpDomain** domain) {
  static_assert((Lists::count + ...) == schema::kOperators,
                "an operator of the table has no kernel");
  static std::map<const OrtApi*, OrtCustomOpDomain*> domains;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const auto found = domains.find(api); found != domains.end()) {
    *domain = found->second;
    return nullptr;
  }
  OrtStatus* status = api->CreateCustomOpDomain(schema::kDomain, domain);
  ((status = status ? status : Lists::add_to(*domain, api)), ...);
  if (status == nullptr) domains[api] = *domain;
  return status;
}

OrtStatus* refuse(const OrtApiBase* base) {
  constexpr uint32_t kFirstVersion = 1;
  const std::string message = "these kernels need ONNX Runtime 1." +
                              std::to_string(ORT_API_VERSION) + " or newer, and this is " +
                              base->GetVersionString();
  return base->GetApi(kFirstVersion)->CreateStatus(ORT_FAIL, message.c_str());
}

}  // namespace
}  // namespace edgespec

extern "C" {

// ONNX Runtime calls this when a session is given this library.
EDGESPEC_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace edgespec;
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) return refuse(base);
  OrtCustomOpDomain* domain = nullptr;
  using Others = KernelList<
      Float16MatMul, BFloat16MatMul, Int8MatMul, RMSNormInt8MatMul, RMSNormHadamardInt8MatMul,
      HadamardInt8MatMul, Int4MatMul, RMSNormInt4MatMul, Int8GroupMatMul, RMSNormInt8GroupMatMul,
      HadamardRotation, Int8Embedding, Int8Head, SiluGate, GeluGate, RMSNorm, SourceRowAttention,
      EncoderAttention, CrossRowAttentionBlock, SiluFeedForwardBlock, GeluFeedForwardBlock,
      GeluFeedForwardPostNormBlock, ReluFeedForwardBlock, Int4CrossRowAttentionBlock,
      Int4SiluFeedForwardBlock, Int4GeluFeedForwardBlock, Int4GeluFeedForwardPostNormBlock,
      Int4ReluFeedForwardBlock, Int8GroupCrossRowAttentionBlock, Int8GroupSiluFeedForwardBlock,
      Int8GroupGeluFeedForwardBlock, Int8GroupGeluFeedForwardPostNormBlock,
      Int8GroupReluFeedForwardBlock>;
  OrtStatus* status =
      domain_of<decltype(each_of<SelfAttention>(schema::SelfAttentions{})),
                decltype(each_of<SelfAttentionBlock>(schema::SelfAttentionBlocks{})), Others>(
          api, &domain);
  return status ? status : api->AddCustomOpDomain(options, domain);
}

EDGESPEC_EXPORT const edgespec::SamplingTable* edgespec_sampling() {
  using namespace edgespec;
  static const SamplingTable table{largest, weigh, nucleus, draw, excess, race};
  return &table;
}
}
