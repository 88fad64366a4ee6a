// Registration: all operators of the table go to one domain, and an older ONNX Runtime is refused.
#include <onnxruntime_c_api.h>

#include <cstring>
#include <iterator>
#include <string>

#include "check.h"
#include "schema/operators.h"

extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

namespace {

int operators = 0, domains = 0;
std::string error;

OrtStatus* create_status(OrtErrorCode, const char* message) noexcept {
  error = message;
  return reinterpret_cast<OrtStatus*>(&error);
}
OrtStatus* create_domain(const char*, OrtCustomOpDomain**) noexcept { return nullptr; }
OrtStatus* add_operator(OrtCustomOpDomain*, const OrtCustomOp* op) noexcept {
  CHECK(op->version == ORT_API_VERSION);
  CHECK(op->GetInputTypeCount(op) > 0 && std::strlen(op->GetName(op)) > 0);
  ++operators;
  return nullptr;
}
OrtStatus* add_domain(OrtSessionOptions*, OrtCustomOpDomain*) noexcept {
  ++domains;
  return nullptr;
}

const OrtApi* api() {
  static OrtApi api{};
  api.CreateStatus = create_status;
  api.CreateCustomOpDomain = create_domain;
  api.CustomOpDomain_Add = add_operator;
  api.AddCustomOpDomain = add_domain;
  return &api;
}

const char* version() noexcept { return "1.20.1"; }
const OrtApi* any_version(uint32_t) noexcept { return api(); }
const OrtApi* old_versions(uint32_t version) noexcept { return version <= 20 ? api() : nullptr; }

}  // namespace

int main() {
  const OrtApiBase current{any_version, version}, old{old_versions, version};
  CHECK(RegisterCustomOps(nullptr, &current) == nullptr);
  CHECK(RegisterCustomOps(nullptr, &current) == nullptr);
  CHECK(operators == std::ssize(edgespec::schema::kOperatorNames) && domains == 2);
  CHECK(RegisterCustomOps(nullptr, &old) != nullptr);
  CHECK(error == "these kernels need ONNX Runtime 1.21 or newer, and this is 1.20.1");
}
