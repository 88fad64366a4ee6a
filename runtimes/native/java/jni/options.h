// LoadOptions, Options and TranscriptOptions of Java as the structures of edgespec.h, and what they
// point to.
#pragma once

#include <edgespec.h>

#include <optional>
#include <string>
#include <vector>

#include "from_java.h"

namespace edgespec_jni {

// Each is the defaults where Java gives null.
class LoadOptions {
 public:
  LoadOptions(JNIEnv* java, jobject given);
  LoadOptions(const LoadOptions&) = delete;
  const edgespec_load_options* get() const { return &options_; }

 private:
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

class TranscriptOptions {
 public:
  TranscriptOptions(JNIEnv* java, jobject given);
  TranscriptOptions(const TranscriptOptions&) = delete;
  const edgespec_transcript_options* get() const { return &options_; }

 private:
  edgespec_transcript_options options_;
  std::string language_, prompt_;
  std::vector<double> temperatures_;
};

}  // namespace edgespec_jni
