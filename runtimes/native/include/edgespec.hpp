// libedgespec for C++17: edgespec.h with objects that close themselves, exceptions and a range.
#ifndef EDGESPEC_HPP
#define EDGESPEC_HPP

#include <edgespec.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace edgespec {

// A call that failed: what() says why in one line.
class Failure : public std::runtime_error {
 public:
  explicit Failure(edgespec_status status)
      : std::runtime_error(edgespec_message()), status(status) {}

  edgespec_status status;
};

inline void check(edgespec_status status) {
  if (status != EDGESPEC_OK) throw Failure(status);
}

// A text as the library takes it, which would end at a zero.
inline const char* c_text(const std::string& text) {
  if (text.find('\0') == text.npos) return text.c_str();
  throw std::invalid_argument("a text has the character U+0000; leave it out");
}

// The options of a load and of a text, with their defaults.
struct LoadOptions : edgespec_load_options {
  LoadOptions() { edgespec_load_options_defaults(this); }
};

struct Options : edgespec_options {
  Options() { edgespec_options_defaults(this); }
};

struct TranscriptOptions : edgespec_transcript_options {
  TranscriptOptions() { edgespec_transcript_options_defaults(this); }
};

// Which of a session's texts and transcripts is the latest: the others were dropped.
class Latest {
 public:
  explicit Latest(std::shared_ptr<std::uint64_t> begun)
      : begun_(std::move(begun)), number_(++*begun_) {}
  // Throws std::logic_error: it was dropped.
  void check() const {
    if (*begun_ != number_) throw std::logic_error("another text has begun in this session");
  }

 private:
  std::shared_ptr<std::uint64_t> begun_;  // how many have begun
  std::uint64_t number_;
};

// The rounds of a text, to be iterated over once.
class Text {
 public:
  class iterator {
   public:
    explicit iterator(Text* text) : text_(text) {}
    const edgespec_piece& operator*() const { return text_->piece_; }
    iterator& operator++() {
      text_->advance();
      return *this;
    }
    // Whether there are more; every other iterator is the end.
    bool operator!=(const iterator&) const { return !text_->ended_; }

   private:
    Text* text_;
  };

  Text(edgespec_session* session, std::uint64_t seed, Latest latest)
      : session_(session), seed_(seed), latest_(std::move(latest)) {
    piece_.size = sizeof piece_;
  }

  iterator begin() {
    advance();
    return iterator(this);
  }
  iterator end() { return iterator(this); }
  std::uint64_t seed() const { return seed_; }
  // Why it ended; EDGESPEC_GOES_ON until then.
  edgespec_ending ending() const { return static_cast<edgespec_ending>(piece_.ending); }

 private:
  // Up to a last piece, which may have text that was held back.
  void advance() {
    ended_ = piece_.ending != EDGESPEC_GOES_ON;
    if (ended_) return;
    latest_.check();
    check(edgespec_next(session_, &piece_));
    ended_ = piece_.ending != EDGESPEC_GOES_ON && piece_.text_bytes == 0;
  }

  edgespec_session* session_;
  std::uint64_t seed_;
  Latest latest_;
  edgespec_piece piece_ = {};
  bool ended_ = false;
};

// The segments of a transcript, to be iterated over once.
class Transcript {
 public:
  class iterator {
   public:
    explicit iterator(Transcript* transcript) : transcript_(transcript) {}
    const edgespec_segment& operator*() const { return transcript_->segment_; }
    iterator& operator++() {
      transcript_->advance();
      return *this;
    }
    // Whether there are more; every other iterator is the end.
    bool operator!=(const iterator&) const { return transcript_->segment_.ended == 0; }

   private:
    Transcript* transcript_;
  };

  Transcript(edgespec_session* session, Latest latest)
      : session_(session), latest_(std::move(latest)) {
    segment_.size = sizeof segment_;
  }

  iterator begin() {
    advance();
    return iterator(this);
  }
  iterator end() { return iterator(this); }
  // The latest segment, or the end: with the language, and how far the transcript is.
  const edgespec_segment& latest() const { return segment_; }

 private:
  void advance() {
    latest_.check();
    check(edgespec_next_segment(session_, &segment_));
  }

  edgespec_session* session_;
  Latest latest_;
  edgespec_segment segment_ = {};
};

// One text after the other, used by one thread at a time.
class Session {
 public:
  explicit Session(edgespec_model* model) : handle_(nullptr, edgespec_close_session) {
    edgespec_session* made = nullptr;
    check(edgespec_open_session(model, &made));
    handle_.reset(made);
  }

  // Begins a text of token ids; one that has not ended is dropped, and throws std::logic_error.
  Text begin(const std::vector<std::int64_t>& prompt, const edgespec_options& options = Options()) {
    std::uint64_t seed = 0;
    check(edgespec_begin(handle_.get(), prompt.data(), prompt.size(), &options, &seed));
    return Text(handle_.get(), seed, Latest(begun_));
  }
  // Begins a text that goes on from this one, in UTF-8.
  Text begin_text(const std::string& prompt, const edgespec_options& options = Options()) {
    std::uint64_t seed = 0;
    check(edgespec_begin_text(handle_.get(), c_text(prompt), &options, &seed));
    return Text(handle_.get(), seed, Latest(begun_));
  }
  // Begins the answer to a conversation.
  Text begin_chat(const std::vector<edgespec_turn>& turns,
                  const edgespec_options& options = Options()) {
    std::uint64_t seed = 0;
    check(edgespec_begin_chat(handle_.get(), turns.data(), turns.size(), &options, &seed));
    return Text(handle_.get(), seed, Latest(begun_));
  }
  // Begins the transcript of a sound: mono, 16,000 samples a second, about -1 to 1.
  Transcript begin_transcript(const std::vector<float>& samples,
                              const edgespec_transcript_options& options = TranscriptOptions()) {
    check(edgespec_begin_transcript(handle_.get(), samples.data(), samples.size(), &options));
    return Transcript(handle_.get(), Latest(begun_));
  }
  // Another with the same caches and text, which goes on from here as this one does.
  Session fork() {
    edgespec_session* made = nullptr;
    check(edgespec_fork(handle_.get(), &made));
    return Session(made);
  }
  // Writes caches and text to a file, whole or not at all; Model::load_session opens it.
  void save(const std::string& file) { check(edgespec_save(handle_.get(), c_text(file))); }
  // The rest of the text that a fork or a loaded session goes on with.
  Text rest() { return Text(handle_.get(), 0, Latest(begun_)); }
  // Positions of the latest prompt that were read, and had to be; any thread may ask.
  std::pair<std::int64_t, std::int64_t> prompt_progress() {
    std::int64_t read = 0, to_read = 0;
    check(edgespec_prompt_progress(handle_.get(), &read, &to_read));
    return {read, to_read};
  }
  // Ends the text that is being made; any thread may call it.
  void cancel() { edgespec_cancel(handle_.get()); }

 private:
  friend class Model;
  explicit Session(edgespec_session* made) : handle_(made, edgespec_close_session) {}

  std::unique_ptr<edgespec_session, decltype(&edgespec_close_session)> handle_;
  std::shared_ptr<std::uint64_t> begun_ = std::make_shared<std::uint64_t>(0);
};

// Several texts at once, each as it is alone, used by one thread at a time.
//
//     while (batch.next()) show(batch.text(), batch.piece());
class Batch {
 public:
  Batch(edgespec_model* model, std::size_t texts) : handle_(nullptr, edgespec_close_batch) {
    edgespec_batch* made = nullptr;
    check(edgespec_open_batch(model, texts, &made));
    handle_.reset(made);
    piece_.size = sizeof piece_;
  }

  // Adds a text of token ids beside those that are being made; its number, and its seed.
  std::pair<std::int64_t, std::uint64_t> add(const std::vector<std::int64_t>& prompt,
                                             const edgespec_options& options = Options()) {
    std::pair<std::int64_t, std::uint64_t> added;
    check(edgespec_batch_add(handle_.get(), prompt.data(), prompt.size(), &options, &added.first,
                             &added.second));
    return added;
  }
  // Adds a text that goes on from this one, in UTF-8.
  std::pair<std::int64_t, std::uint64_t> add_text(const std::string& prompt,
                                                  const edgespec_options& options = Options()) {
    std::pair<std::int64_t, std::uint64_t> added;
    check(edgespec_batch_add_text(handle_.get(), c_text(prompt), &options, &added.first,
                                  &added.second));
    return added;
  }
  // Adds the answer to a conversation.
  std::pair<std::int64_t, std::uint64_t> add_chat(const std::vector<edgespec_turn>& turns,
                                                  const edgespec_options& options = Options()) {
    std::pair<std::int64_t, std::uint64_t> added;
    check(edgespec_batch_add_chat(handle_.get(), turns.data(), turns.size(), &options, &added.first,
                                  &added.second));
    return added;
  }
  // Makes the next piece of any text; whether there was one. Throws Failure: `text` failed, and has
  // ended; the others go on.
  bool next() {
    check(edgespec_batch_next(handle_.get(), &text_, &piece_));
    return text_ != EDGESPEC_NO_TEXT;
  }
  // The latest piece, and the number of its text.
  std::int64_t text() const { return text_; }
  const edgespec_piece& piece() const { return piece_; }
  // Positions of a text's prompt that were read, and had to be; any thread may ask.
  std::pair<std::int64_t, std::int64_t> progress(std::int64_t text) {
    std::int64_t read = 0, to_read = 0;
    check(edgespec_batch_progress(handle_.get(), text, &read, &to_read));
    return {read, to_read};
  }
  // Takes a text out; any thread may call it.
  void cancel(std::int64_t text) { edgespec_batch_cancel(handle_.get(), text); }

 private:
  std::unique_ptr<edgespec_batch, decltype(&edgespec_close_batch)> handle_;
  std::int64_t text_ = EDGESPEC_NO_TEXT;
  edgespec_piece piece_ = {};
};

// What a pair will take, from its manifest alone.
inline edgespec_memory estimate(const std::string& folder,
                                const edgespec_load_options& options = LoadOptions()) {
  edgespec_memory memory = {};
  memory.size = sizeof memory;
  check(edgespec_estimate(c_text(folder), &options, &memory));
  return memory;
}

// A loaded pair; threads may share it.
class Model {
 public:
  explicit Model(const std::string& folder, const edgespec_load_options& options = LoadOptions())
      : handle_(nullptr, edgespec_close) {
    if (edgespec_abi() != EDGESPEC_ABI) {
      throw std::runtime_error("libedgespec has the ABI " + std::to_string(edgespec_abi()) +
                               " and this program was compiled for " +
                               std::to_string(EDGESPEC_ABI) + "; ship both of one version");
    }
    edgespec_model* made = nullptr;
    check(edgespec_load(c_text(folder), &options, &made));
    handle_.reset(made);
  }

  Session session() const { return Session(handle_.get()); }
  // A batch of so many texts at once.
  Batch batch(std::size_t texts) const { return Batch(handle_.get(), texts); }
  Session load_session(const std::string& file) {
    edgespec_session* made = nullptr;
    check(edgespec_load_session(handle_.get(), c_text(file), &made));
    return Session(made);
  }

  // The version of edgespec that the library is part of.
  static const char* version() { return edgespec_version(); }

  // Token ids of a text in UTF-8, and the text of token ids.
  std::vector<std::int64_t> encode(const std::string& text) const {
    std::size_t count = 0;
    check(edgespec_encode(handle_.get(), c_text(text), nullptr, 0, &count));
    std::vector<std::int64_t> tokens(count);
    check(edgespec_encode(handle_.get(), c_text(text), tokens.data(), count, &count));
    return tokens;
  }
  std::string decode(const std::vector<std::int64_t>& tokens) const {
    std::size_t bytes = 0;
    check(edgespec_decode(handle_.get(), tokens.data(), tokens.size(), nullptr, 0, &bytes));
    std::string text(bytes, '\0');
    check(edgespec_decode(handle_.get(), tokens.data(), tokens.size(), text.data(), bytes, &bytes));
    return text;
  }

 private:
  std::unique_ptr<edgespec_model, decltype(&edgespec_close)> handle_;
};

}  // namespace edgespec

#endif
