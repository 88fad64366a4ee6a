// LoadOptions and Options of Java as the structures of edgespec.h, and what they point to.
#pragma once

#include <edgespec.h>

#include <optional>
#include <string>
#include <vector>

#include "from_java.h"

namespace edgespec_jni {

class LoadOptions {
 public:
  LoadOptions(JNIEnv* java, jobject given);
  LoadOptions(const LoadOptions&) = delete;
  const edgespec_load_options* get() const { return &options_; }

 private:
  const char* kept(JNIEnv* java, jbyteArray text, std::string& place);

  edgespec_load_options options_;
  std::string onnxruntime_, target_format_, draft_format_;
};

class Options {
 public:
  Options(JNIEnv* java, jobject given);
  Options(const Options&) = delete;
  const edgespec_options* get() const { return &options_; }

 private:
  edgespec_options options_;
  std::vector<edgespec_bias> biases_;
  std::vector<int64_t> stop_tokens_;
  std::vector<edgespec_range> answers_;
  std::vector<std::string> stop_;
  std::vector<const char*> stop_pointers_;
};

}  // namespace edgespec_jni
