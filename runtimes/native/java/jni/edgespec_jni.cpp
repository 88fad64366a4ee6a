// The native methods of edgespec.Native: edgespec.h for Java. The header's rules hold; Java's
// classes see to it that no handle is used after it is closed.
#include <edgespec.h>
#include <jni.h>

#include <exception>
#include <iterator>
#include <string>
#include <vector>

#include "from_java.h"
#include "options.h"

using namespace edgespec_jni;

namespace {

jbyteArray java_bytes(JNIEnv* java, const char* bytes, size_t count) {
  jbyteArray made = java->NewByteArray(static_cast<jsize>(count));
  if (made == nullptr) throw Pending();
  java->SetByteArrayRegion(made, 0, static_cast<jsize>(count),
                           reinterpret_cast<const jbyte*>(bytes));
  return made;
}

jlongArray java_longs(JNIEnv* java, const int64_t* numbers, size_t count) {
  const std::vector<jlong> longs(numbers, numbers + count);
  jlongArray made = java->NewLongArray(static_cast<jsize>(count));
  if (made == nullptr) throw Pending();
  java->SetLongArrayRegion(made, 0, static_cast<jsize>(count), longs.data());
  return made;
}

jdoubleArray java_doubles(JNIEnv* java, const double* numbers, size_t count) {
  jdoubleArray made = java->NewDoubleArray(static_cast<jsize>(count));
  if (made == nullptr) throw Pending();
  if (count > 0) java->SetDoubleArrayRegion(made, 0, static_cast<jsize>(count), numbers);
  return made;
}

// An instance of a class of the package, by its constructor.
template <typename... Values>
jobject made(JNIEnv* java, const char* name, const char* constructor, Values... values) {
  jclass type = java->FindClass(name);
  check(java);
  jmethodID method = java->GetMethodID(type, "<init>", constructor);
  check(java);
  jobject object = java->NewObject(type, method, values...);
  check(java);
  return object;
}

void throw_failure(JNIEnv* java, int status, const std::string& message) {
  jobject failure = made(java, "edgespec/EdgespecException", "(I[B)V", jint(status),
                         java_bytes(java, message.data(), message.size()));
  java->Throw(static_cast<jthrowable>(failure));
}

// What a native method does: a status of the library, or anything thrown, becomes a Java exception.
template <typename Result = int, typename Function>
Result guarded(JNIEnv* java, Function function) {
  try {
    return function();
  } catch (const Pending&) {
    return {};
  } catch (const std::exception& error) {
    try {
      throw_failure(java, EDGESPEC_ERROR, error.what());
    } catch (const Pending&) {
    }
    return {};
  }
}

void succeed(JNIEnv* java, edgespec_status status) {
  if (status == EDGESPEC_OK) return;
  throw_failure(java, status, edgespec_message());
  throw Pending();
}

edgespec_model* model_of(jlong handle) { return reinterpret_cast<edgespec_model*>(handle); }

edgespec_session* session_of(jlong handle) { return reinterpret_cast<edgespec_session*>(handle); }

edgespec_batch* batch_of(jlong handle) { return reinterpret_cast<edgespec_batch*>(handle); }

jobject java_piece(JNIEnv* java, const edgespec_piece& piece) {
  const size_t logprobs = piece.logprobs == nullptr ? 0 : piece.count;
  return made(java, "edgespec/Piece", "([J[B[DJJJI)V", java_longs(java, piece.tokens, piece.count),
              java_bytes(java, piece.text, piece.text_bytes),
              java_doubles(java, piece.logprobs, logprobs), jlong(piece.drafted),
              jlong(piece.evaluated), jlong(piece.accepted), jint(piece.ending));
}

jobject java_segment(JNIEnv* java, const edgespec_segment& found) {
  const double numbers[] = {
      found.start,       found.end,       found.temperature,          found.logprob,
      found.compression, found.no_speech, found.language_probability, found.seconds};
  const int64_t counts[] = {found.calls, found.drafted, found.accepted};
  const std::string language = found.language;
  return made(
      java, "edgespec/Segment", "([D[B[J[B[JI)V", java_doubles(java, numbers, std::size(numbers)),
      java_bytes(java, found.text, found.text_bytes), java_longs(java, found.tokens, found.count),
      java_bytes(java, language.data(), language.size()),
      java_longs(java, counts, std::size(counts)), jint(found.ended));
}

jobject java_added(JNIEnv* java, int64_t text, uint64_t seed) {
  return made(java, "edgespec/AddedText", "(JJ)V", jlong(text), jlong(seed));
}

// A conversation as the library takes it.
class Turns {
 public:
  Turns(JNIEnv* java, jobjectArray roles, jobjectArray contents)
      : roles_(texts_of(java, roles)), contents_(texts_of(java, contents)) {
    for (size_t i = 0; i < roles_.size(); ++i) {
      turns_.push_back({roles_[i].c_str(), contents_[i].c_str()});
    }
  }

  const edgespec_turn* data() const { return turns_.data(); }
  size_t size() const { return turns_.size(); }

 private:
  std::vector<std::string> roles_, contents_;
  std::vector<edgespec_turn> turns_;
};

}  // namespace

#define NATIVE(result, name) extern "C" JNIEXPORT result JNICALL Java_edgespec_Native_##name

NATIVE(void, checkAbi)(JNIEnv* java, jclass) {
  guarded(java, [&] {
    if (edgespec_abi() == EDGESPEC_ABI) return 0;
    throw_failure(java, EDGESPEC_USAGE,
                  "libedgespec has the ABI " + std::to_string(edgespec_abi()) +
                      " and this binding was compiled for " + std::to_string(EDGESPEC_ABI) +
                      "; ship both of one version");
    return 0;
  });
}

NATIVE(jstring, version)(JNIEnv* java, jclass) { return java->NewStringUTF(edgespec_version()); }

NATIVE(jlong, load)(JNIEnv* java, jclass, jbyteArray folder, jobject given) {
  return guarded<jlong>(java, [&] {
    const LoadOptions options(java, given);
    edgespec_model* model = nullptr;
    succeed(java, edgespec_load(bytes_of(java, folder).c_str(), options.get(), &model));
    return reinterpret_cast<jlong>(model);
  });
}

NATIVE(jobject, estimate)(JNIEnv* java, jclass, jbyteArray folder, jobject given) {
  return guarded<jobject>(java, [&] {
    const LoadOptions options(java, given);
    edgespec_memory memory = {};
    memory.size = sizeof memory;
    succeed(java, edgespec_estimate(bytes_of(java, folder).c_str(), options.get(), &memory));
    return made(java, "edgespec/MemoryEstimate", "(JJ)V", jlong(memory.weights),
                jlong(memory.caches));
  });
}

NATIVE(void, close)(JNIEnv*, jclass, jlong model) { edgespec_close(model_of(model)); }

NATIVE(jlong, openSession)(JNIEnv* java, jclass, jlong model) {
  return guarded<jlong>(java, [&] {
    edgespec_session* session = nullptr;
    succeed(java, edgespec_open_session(model_of(model), &session));
    return reinterpret_cast<jlong>(session);
  });
}

NATIVE(jlong, fork)(JNIEnv* java, jclass, jlong session) {
  return guarded<jlong>(java, [&] {
    edgespec_session* fork = nullptr;
    succeed(java, edgespec_fork(session_of(session), &fork));
    return reinterpret_cast<jlong>(fork);
  });
}

NATIVE(void, save)(JNIEnv* java, jclass, jlong session, jbyteArray file) {
  guarded(java, [&] {
    succeed(java, edgespec_save(session_of(session), bytes_of(java, file).c_str()));
    return 0;
  });
}

NATIVE(jlong, loadSession)(JNIEnv* java, jclass, jlong model, jbyteArray file) {
  return guarded<jlong>(java, [&] {
    edgespec_session* session = nullptr;
    succeed(java, edgespec_load_session(model_of(model), bytes_of(java, file).c_str(), &session));
    return reinterpret_cast<jlong>(session);
  });
}

NATIVE(void, closeSession)(JNIEnv*, jclass, jlong session) {
  edgespec_close_session(session_of(session));
}

NATIVE(jlong, begin)(JNIEnv* java, jclass, jlong session, jlongArray prompt, jobject given) {
  return guarded<jlong>(java, [&] {
    const Options options(java, given);
    const std::vector<int64_t> tokens = longs_of(java, prompt);
    uint64_t seed = 0;
    succeed(java, edgespec_begin(session_of(session), tokens.data(), tokens.size(), options.get(),
                                 &seed));
    return static_cast<jlong>(seed);
  });
}

NATIVE(jlong, beginText)(JNIEnv* java, jclass, jlong session, jbyteArray prompt, jobject given) {
  return guarded<jlong>(java, [&] {
    const Options options(java, given);
    uint64_t seed = 0;
    succeed(java, edgespec_begin_text(session_of(session), bytes_of(java, prompt).c_str(),
                                      options.get(), &seed));
    return static_cast<jlong>(seed);
  });
}

NATIVE(jlong, beginChat)(JNIEnv* java, jclass, jlong session, jobjectArray roles,
                         jobjectArray contents, jobject given) {
  return guarded<jlong>(java, [&] {
    const Options options(java, given);
    const Turns turns(java, roles, contents);
    uint64_t seed = 0;
    succeed(java, edgespec_begin_chat(session_of(session), turns.data(), turns.size(),
                                      options.get(), &seed));
    return static_cast<jlong>(seed);
  });
}

NATIVE(jobject, next)(JNIEnv* java, jclass, jlong session) {
  return guarded<jobject>(java, [&] {
    edgespec_piece piece = {};
    piece.size = sizeof piece;
    succeed(java, edgespec_next(session_of(session), &piece));
    return java_piece(java, piece);
  });
}

NATIVE(void, beginTranscript)(JNIEnv* java, jclass, jlong session, jfloatArray sound,
                              jobject given) {
  guarded(java, [&] {
    const TranscriptOptions options(java, given);
    const std::vector<float> samples = floats_of(java, sound);
    succeed(java, edgespec_begin_transcript(session_of(session), samples.data(), samples.size(),
                                            options.get()));
    return 0;
  });
}

NATIVE(jobject, nextSegment)(JNIEnv* java, jclass, jlong session) {
  return guarded<jobject>(java, [&] {
    edgespec_segment found = {};
    found.size = sizeof found;
    succeed(java, edgespec_next_segment(session_of(session), &found));
    return java_segment(java, found);
  });
}

NATIVE(jobject, promptProgress)(JNIEnv* java, jclass, jlong session) {
  return guarded<jobject>(java, [&] {
    int64_t read = 0, to_read = 0;
    succeed(java, edgespec_prompt_progress(session_of(session), &read, &to_read));
    return made(java, "edgespec/Progress", "(JJ)V", jlong(read), jlong(to_read));
  });
}

NATIVE(void, cancel)(JNIEnv*, jclass, jlong session) { edgespec_cancel(session_of(session)); }

NATIVE(jlong, openBatch)(JNIEnv* java, jclass, jlong model, jint texts) {
  return guarded<jlong>(java, [&] {
    edgespec_batch* batch = nullptr;
    succeed(java, edgespec_open_batch(model_of(model), static_cast<size_t>(texts), &batch));
    return reinterpret_cast<jlong>(batch);
  });
}

NATIVE(void, closeBatch)(JNIEnv*, jclass, jlong batch) { edgespec_close_batch(batch_of(batch)); }

NATIVE(jobject, batchAdd)(JNIEnv* java, jclass, jlong batch, jlongArray prompt, jobject given) {
  return guarded<jobject>(java, [&] {
    const Options options(java, given);
    const std::vector<int64_t> tokens = longs_of(java, prompt);
    int64_t text = 0;
    uint64_t seed = 0;
    succeed(java, edgespec_batch_add(batch_of(batch), tokens.data(), tokens.size(), options.get(),
                                     &text, &seed));
    return java_added(java, text, seed);
  });
}

NATIVE(jobject, batchAddText)(JNIEnv* java, jclass, jlong batch, jbyteArray prompt, jobject given) {
  return guarded<jobject>(java, [&] {
    const Options options(java, given);
    int64_t text = 0;
    uint64_t seed = 0;
    succeed(java, edgespec_batch_add_text(batch_of(batch), bytes_of(java, prompt).c_str(),
                                          options.get(), &text, &seed));
    return java_added(java, text, seed);
  });
}

NATIVE(jobject, batchAddChat)(JNIEnv* java, jclass, jlong batch, jobjectArray roles,
                              jobjectArray contents, jobject given) {
  return guarded<jobject>(java, [&] {
    const Options options(java, given);
    const Turns turns(java, roles, contents);
    int64_t text = 0;
    uint64_t seed = 0;
    succeed(java, edgespec_batch_add_chat(batch_of(batch), turns.data(), turns.size(),
                                          options.get(), &text, &seed));
    return java_added(java, text, seed);
  });
}

NATIVE(jobject, batchNext)(JNIEnv* java, jclass, jlong batch, jlongArray text) {
  return guarded<jobject>(java, [&] {
    int64_t number = EDGESPEC_NO_TEXT;
    edgespec_piece piece = {};
    piece.size = sizeof piece;
    const edgespec_status status = edgespec_batch_next(batch_of(batch), &number, &piece);
    const jlong told = number;
    java->SetLongArrayRegion(text, 0, 1, &told);
    check(java);
    succeed(java, status);
    return java_piece(java, piece);
  });
}

NATIVE(jobject, batchProgress)(JNIEnv* java, jclass, jlong batch, jlong text) {
  return guarded<jobject>(java, [&] {
    int64_t read = 0, to_read = 0;
    succeed(java, edgespec_batch_progress(batch_of(batch), text, &read, &to_read));
    return made(java, "edgespec/Progress", "(JJ)V", jlong(read), jlong(to_read));
  });
}

NATIVE(void, batchCancel)(JNIEnv*, jclass, jlong batch, jlong text) {
  edgespec_batch_cancel(batch_of(batch), text);
}

NATIVE(jlongArray, encode)(JNIEnv* java, jclass, jlong model, jbyteArray given) {
  return guarded<jlongArray>(java, [&] {
    const std::string text = bytes_of(java, given);
    size_t count = 0;
    succeed(java, edgespec_encode(model_of(model), text.c_str(), nullptr, 0, &count));
    std::vector<int64_t> tokens(count);
    succeed(java, edgespec_encode(model_of(model), text.c_str(), tokens.data(), count, &count));
    return java_longs(java, tokens.data(), count);
  });
}

NATIVE(jbyteArray, decode)(JNIEnv* java, jclass, jlong model, jlongArray given) {
  return guarded<jbyteArray>(java, [&] {
    const std::vector<int64_t> tokens = longs_of(java, given);
    size_t bytes = 0;
    succeed(java,
            edgespec_decode(model_of(model), tokens.data(), tokens.size(), nullptr, 0, &bytes));
    std::string text(bytes, '\0');
    succeed(java, edgespec_decode(model_of(model), tokens.data(), tokens.size(), text.data(), bytes,
                                  &bytes));
    return java_bytes(java, text.data(), bytes);
  });
}
