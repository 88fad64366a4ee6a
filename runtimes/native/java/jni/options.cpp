#include "options.h"

namespace edgespec_jni {

namespace {

// A text that is kept in `place`; null stays null.
const char* kept(JNIEnv* java, jbyteArray text, std::string& place) {
  place = bytes_of(java, text);
  return text == nullptr ? nullptr : place.c_str();
}

}  // namespace

LoadOptions::LoadOptions(JNIEnv* java, jobject given) {
  edgespec_load_options_defaults(&options_);
  if (given == nullptr) return;
  const Object object(java, given);
  const auto text = [&](const char* name) { return object.asked<jbyteArray>(name, "()[B"); };
  options_.onnxruntime = kept(java, text("onnxruntimeBytes"), onnxruntime_);
  options_.target_format = kept(java, text("targetFormatBytes"), target_format_);
  options_.draft_format = kept(java, text("draftFormatBytes"), draft_format_);
  options_.threads = object.number("threads");
  options_.allow_inexact = object.truth("allowInexact");
  options_.capacity = object.whole("capacity");
}

Options::Options(JNIEnv* java, jobject given) {
  edgespec_options_defaults(&options_);
  if (given == nullptr) return;
  const Object object(java, given);
  options_.temperature = object.real("temperature");
  options_.top_k = object.whole("topK");
  options_.top_p = object.real("topP");
  options_.min_p = object.real("minP");
  options_.top_n_sigma = object.real("topNSigma");
  options_.xtc_probability = object.real("xtcProbability");
  options_.xtc_threshold = object.real("xtcThreshold");
  options_.repetition_penalty = object.real("repetitionPenalty");
  options_.presence_penalty = object.real("presencePenalty");
  options_.frequency_penalty = object.real("frequencyPenalty");
  options_.min_tokens = object.whole("minTokens");
  options_.max_new_tokens = object.whole("maxNewTokens");
  options_.ignore_eos = object.truth("ignoreEos");
  options_.draft = object.asked_number("draftNumber");
  options_.gamma = object.whole("gamma");
  options_.rule = object.asked_number("ruleNumber");
  options_.has_seed = object.asked_truth("hasSeed");
  options_.seed = static_cast<uint64_t>(object.asked_whole("seedBits"));
  options_.logprobs = object.truth("logprobs");

  const auto tokens = longs_of(java, object.asked<jlongArray>("biasTokens", "()[J"));
  const auto biases = doubles_of(java, object.asked<jdoubleArray>("biases", "()[D"));
  for (size_t i = 0; i < tokens.size(); ++i) biases_.push_back({tokens[i], biases[i]});
  options_.logit_bias = biases_.data();
  options_.logit_bias_count = biases_.size();

  stop_tokens_ = longs_of(java, object.asked<jlongArray>("stopTokensGiven", "()[J"));
  options_.stop_tokens = stop_tokens_.data();
  options_.stop_tokens_count = stop_tokens_.size();

  if (const auto answers = object.asked<jlongArray>("answersGiven", "()[J")) {
    const auto borders = longs_of(java, answers);
    for (size_t i = 0; i + 1 < borders.size(); i += 2) {
      answers_.push_back({borders[i], borders[i + 1]});
    }
    answers_.reserve(1);  // where there are none yet, it is no null pointer
    options_.answers = answers_.data();
    options_.answers_count = answers_.size();
  }

  stop_ = texts_of(java, object.asked<jobjectArray>("stopBytes", "()[[B"));
  for (const std::string& one : stop_) stop_pointers_.push_back(one.c_str());
  options_.stop = stop_pointers_.data();
  options_.stop_count = stop_pointers_.size();
}

TranscriptOptions::TranscriptOptions(JNIEnv* java, jobject given) {
  edgespec_transcript_options_defaults(&options_);
  if (given == nullptr) return;
  const Object object(java, given);
  options_.language = kept(java, object.asked<jbyteArray>("languageBytes", "()[B"), language_);
  options_.translate = object.truth("translate");
  options_.timestamps = object.truth("timestamps");
  options_.use_previous = object.truth("usePrevious");
  options_.prompt = kept(java, object.asked<jbyteArray>("promptBytes", "()[B"), prompt_);
  options_.no_speech = object.real("noSpeech");
  options_.min_logprob = object.real("minLogprob");
  options_.max_compression = object.real("maxCompression");
  options_.draft = object.asked_number("draftNumber");
  options_.gamma = object.whole("gamma");
  options_.seed = static_cast<uint64_t>(object.whole("seed"));
  if (const auto given_ones = object.asked<jdoubleArray>("temperaturesGiven", "()[D")) {
    temperatures_ = doubles_of(java, given_ones);
    temperatures_.reserve(1);  // where there are none, it is no null pointer
    options_.temperatures = temperatures_.data();
    options_.temperatures_count = temperatures_.size();
  }
}

}  // namespace edgespec_jni
