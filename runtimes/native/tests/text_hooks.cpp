// Functions of the tokenizer, for tests/native: of any tokenizer.json, without a pair.
#include <memory>
#include <string>

#include "api/structures.h"
#include "artifact/manifest.h"
#include "edgespec.h"
#include "text/growing_text.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

using namespace edgespec;

namespace {

// What the latest call of the thread gave.
struct Result {
  std::string text;
  Tokens tokens;
};

Result& result() {
  thread_local Result latest;
  return latest;
}

template <typename Function>
const char* failure_of(Function function) {
  try {
    function();
    return nullptr;
  } catch (const std::exception& error) {
    result().text = error.what();
    return result().text.c_str();
  }
}

}  // namespace

extern "C" {

EDGESPEC_API const char* edgespec_hook_open_tokenizer(const char* path, const void** opened) {
  return failure_of([&] { *opened = Tokenizer::open(path).release(); });
}

EDGESPEC_API void edgespec_hook_close_tokenizer(const void* tokenizer) {
  delete static_cast<const Tokenizer*>(tokenizer);
}

// special: a value of Tokenizer::Special.
EDGESPEC_API const char* edgespec_hook_encode(const void* tokenizer, const char* text, size_t bytes,
                                              int special, const int64_t** tokens, size_t* count) {
  return failure_of([&] {
    result().tokens = static_cast<const Tokenizer*>(tokenizer)->encode(
        {text, bytes}, static_cast<Tokenizer::Special>(special));
    *tokens = result().tokens.data();
    *count = result().tokens.size();
  });
}

EDGESPEC_API const char* edgespec_hook_decode(const void* tokenizer, const int64_t* tokens,
                                              size_t count, int skip_special, const char** text,
                                              size_t* bytes) {
  return failure_of([&] {
    result().text = static_cast<const Tokenizer*>(tokenizer)->decode(Tokens(tokens, tokens + count),
                                                                     skip_special != 0);
    *text = result().text.data();
    *bytes = result().text.size();
  });
}

// The pieces of a growing text, with "\0" after each token's; `ends` says where each ends.
EDGESPEC_API const char* edgespec_hook_grow(const void* tokenizer, const int64_t* tokens,
                                            size_t before, size_t count, const char* stop,
                                            const char** text, size_t* ends) {
  return failure_of([&] {
    std::vector<std::string> stops;
    for (const char* one = stop; *one != 0; one += stops.back().size() + 1) stops.push_back(one);
    GrowingText growing(*static_cast<const Tokenizer*>(tokenizer), stops,
                        Tokens(tokens, tokens + before));
    result().text.clear();
    for (size_t i = 0; i < count; ++i) {
      if (!growing.stopped()) growing.add(tokens[before + i], result().text);
      ends[i] = result().text.size();
    }
    growing.end(result().text);
    ends[count] = result().text.size();
    *text = result().text.data();
  });
}

// The ids of a conversation in the chat format of an exported folder.
EDGESPEC_API const char* edgespec_hook_chat(const void* tokenizer, const char* folder,
                                            const edgespec_turn* turns, size_t turns_count,
                                            const int64_t** tokens, size_t* count) {
  return failure_of([&] {
    const ChatText chat = read_manifest(folder).chat.value().text(messages_of(turns, turns_count),
                                                                  std::time(nullptr));
    result().tokens = prompt_of(*static_cast<const Tokenizer*>(tokenizer), chat).tokens;
    *tokens = result().tokens.data();
    *count = result().tokens.size();
  });
}
}
