/* libedgespec: exact speculative decoding of exported pairs, for programs in any language.
 *
 * - A model is loaded once and never changes: threads may share it. It has any number of sessions,
 *   each with caches of its own and used by one thread at a time; a second one gets an error. Any
 *   thread may cancel, close, and ask how far a prompt is read.
 * - A session makes one text after the other, in token ids, and is asked for the next piece: there
 *   are no callbacks.
 * - A batch makes several texts at once, in calls that they share: each has the tokens that it has
 *   alone, and together they come faster.
 * - A session of a speech model transcribes one sound after the other, and is asked for the next
 *   segment.
 * - Functions that can fail return a status. edgespec_message() then says why in one line, for the
 *   thread that called: the value, the limit, the way out.
 * - Objects may be closed in any order, also while another thread uses them. A session whose model
 *   was closed goes on: the model's memory is freed with its last session. A closed handle is an
 *   error, always: no later object has it again.
 * - Structures begin with their size and only grow at their end. edgespec_…_defaults fills them in.
 */
#ifndef EDGESPEC_H
#define EDGESPEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(EDGESPEC_BUILD)
#define EDGESPEC_API __declspec(dllexport)
#elif defined(_WIN32)
#define EDGESPEC_API __declspec(dllimport)
#else
#define EDGESPEC_API __attribute__((visibility("default")))
#endif

/* Programs that were compiled with another number need another library. */
#define EDGESPEC_ABI 1

typedef struct edgespec_model edgespec_model;
typedef struct edgespec_session edgespec_session;
typedef struct edgespec_batch edgespec_batch;

typedef enum edgespec_status {
  EDGESPEC_OK = 0,
  EDGESPEC_ERROR = 1,     /* something outside the program is wrong: a file, a model, a machine */
  EDGESPEC_USAGE = 2,     /* the caller asked for something that cannot be */
  EDGESPEC_CANCELLED = 3, /* edgespec_cancel ended the text */
} edgespec_status;

/* Who decides which drafted tokens stay. All are exact. */
typedef enum edgespec_rule {
  EDGESPEC_RULE_DEFAULT = 0, /* coupled when sampling; greedy text is the same with each */
  EDGESPEC_RULE_COUPLED = 1, /* the text is the plain text of its seed, token by token */
  EDGESPEC_RULE_TOKEN = 2,
  EDGESPEC_RULE_BLOCK = 3,
} edgespec_rule;

/* Who drafts. Greedy text, and that of the coupled rule, is the same with each. */
typedef enum edgespec_draft {
  EDGESPEC_DRAFT_NONE = 0,   /* plain decoding */
  EDGESPEC_DRAFT_MODEL = 1,  /* the draft model; lookup, where the pair has none */
  EDGESPEC_DRAFT_LOOKUP = 2, /* what followed the same tokens earlier, in the prompt or the text */
  EDGESPEC_DRAFT_BOTH = 3,   /* in each round the one that should bring more. The default */
} edgespec_draft;

/* As many drafted tokens as pay: by the clock, where the text does not depend on it, else by what
 * such models usually take. */
#define EDGESPEC_GAMMA_AUTO (-1)

typedef enum edgespec_ending {
  EDGESPEC_GOES_ON = 0,
  EDGESPEC_END_OF_TEXT = 1, /* a token of the model ended it */
  EDGESPEC_STOPPED = 2,     /* one of stop_tokens did */
  EDGESPEC_MAX_TOKENS = 3,  /* it has max_new_tokens */
  EDGESPEC_FULL = 4,        /* the cache is full */
} edgespec_ending;

typedef struct edgespec_load_options {
  size_t size;               /* of this structure */
  const char* onnxruntime;   /* file of ONNX Runtime's shared library, 1.25 or newer; NULL: its
                                usual name, where the system finds libraries */
  const char* target_format; /* which exported variants; NULL: the first */
  const char* draft_format;
  int32_t threads;       /* of each model; 0: all physical cores */
  int32_t allow_inexact; /* 1: speculate even if the target is not exact; it is not measured */
  int64_t capacity;      /* positions of a session's caches; 0: the exporter's choice */
} edgespec_load_options;

/* What a pair takes, in bytes. */
typedef struct edgespec_memory {
  size_t size;      /* of this structure */
  uint64_t weights; /* graphs and weights, once for all sessions */
  uint64_t caches;  /* of a session, or of each text of a batch, when they are full; they take
                       memory as they are filled */
} edgespec_memory;

typedef struct edgespec_bias {
  int64_t token;
  double bias;
} edgespec_bias;

/* Positions begin … end - 1. */
typedef struct edgespec_range {
  int64_t begin, end;
} edgespec_range;

/* How a text is made; docs/reference/api.md says more about each option. */
typedef struct edgespec_options {
  size_t size; /* of this structure */
  /* Sampling. */
  double temperature;     /* 0: greedy, the default */
  int64_t top_k;          /* 0: off */
  double top_p;           /* 1: off */
  double min_p;           /* 0: off */
  double top_n_sigma;     /* 0: off */
  double xtc_probability; /* 0: off */
  double xtc_threshold;   /* 0.1 */
  /* Changes of logits. */
  double repetition_penalty; /* 1: off */
  double presence_penalty;   /* 0: off */
  double frequency_penalty;  /* 0: off */
  const edgespec_bias* logit_bias;
  size_t logit_bias_count;
  int64_t min_tokens; /* 0: off */
  /* The end of the text. */
  int64_t max_new_tokens;     /* -1: up to the end of the text or of the cache */
  const int64_t* stop_tokens; /* end the text, as the model's own do; they are part of it */
  size_t stop_tokens_count;
  int32_t ignore_eos; /* 1: go on after a token of the model that ends a text */
  /* Drafts. */
  int32_t draft; /* edgespec_draft */
  int64_t gamma; /* tokens drafted a round; EDGESPEC_GAMMA_AUTO: as many as pay */
  int32_t rule;  /* edgespec_rule */
  /* Random draws. */
  int32_t has_seed; /* 0: a new one */
  uint64_t seed;    /* draws the same text again */
  /* Reports. */
  int32_t logprobs; /* 1: of each token, the log of its probability by the target */
  /* Strings in UTF-8 that end the text and are no part of it. */
  const char* const* stop;
  size_t stop_count;
  /* For edgespec_begin. NULL: what the session's caches hold of the prompt is computed again. Else
   * the prompt is a conversation, and its earlier answers are at these positions, in order: from
   * the position before an answer's first token on, up to its last token. What the caches hold of
   * it is then not computed again, and the text has the same bits. edgespec_begin_chat finds them
   * itself. */
  const edgespec_range* answers;
  size_t answers_count;
} edgespec_options;

/* A message of a conversation. */
typedef struct edgespec_turn {
  const char* role;    /* "system", "user" or "assistant" */
  const char* content; /* UTF-8 */
} edgespec_turn;

/* What one call of the target brought, or the text's end, which has no tokens. Accepted tokens come
 * first, then the target's own: one, or two where the first was a second choice of the draft. */
typedef struct edgespec_piece {
  size_t size;           /* of this structure */
  const int64_t* tokens; /* valid until the session's next call */
  size_t count;
  int64_t drafted, evaluated, accepted; /* tokens: proposed, looked at by the rule, emitted */
  int32_t ending;                       /* edgespec_ending */
  const double* logprobs;               /* of the tokens, as long valid; NULL unless asked for */
  const char* text;  /* UTF-8 that became final, also with the end; as long valid. Empty for a
                        prompt of token ids, unless stop is given */
  size_t text_bytes; /* without the zero at its end */
} edgespec_piece;

/* How a sound is transcribed; docs/reference/api.md says more about each option. A limit may be
 * NaN: none. */
typedef struct edgespec_transcript_options {
  size_t size;          /* of this structure */
  const char* language; /* code of the spoken one; NULL: found in the first window with speech */
  int32_t translate;    /* 1: to English */
  int32_t timestamps;   /* 1, the default: the model says when; 0: a window is one segment */
  int32_t use_previous; /* 1: the text of earlier windows is the beginning of the next one's */
  const char* prompt;   /* UTF-8; stands before the first window as if it had been said, or NULL */
  /* Of the text. A window's text is decoded at the first; where it is improbable or repeats itself,
   * again at the next one. NULL: 0, 0.2, 0.4, 0.6, 0.8, 1. */
  const double* temperatures;
  size_t temperatures_count;
  double no_speech;       /* 0.6: probability of silence above which a window is left out, unless
                             its text is probable */
  double min_logprob;     /* -1: mean log-probability of a token below which a text is improbable */
  double max_compression; /* 2.4: how many times smaller zlib makes a text that does not repeat
                             itself */
  int32_t draft;          /* edgespec_draft */
  int64_t gamma;          /* as of edgespec_options */
  uint64_t seed;          /* 0: a sound has one transcript */
} edgespec_transcript_options;

/* A part of a transcript, or its end, which has no text; and how far the transcript is. */
typedef struct edgespec_segment {
  size_t size;       /* of this structure */
  double start, end; /* seconds from the beginning of the sound */
  /* UTF-8, without white space around it and without the zero at its end; valid until the session's
   * next call. */
  const char* text;
  size_t text_bytes;
  const int64_t* tokens; /* with timestamps; as long valid */
  size_t count;
  /* Of its window: the temperature of its text, the mean log-probability of a token, how many times
   * smaller zlib makes the text, and the probability that nothing is said. */
  double temperature, logprob, compression, no_speech;
  const char* language;             /* its code, as long valid; empty until it is known */
  double language_probability;      /* 0 unless the language was found */
  double seconds;                   /* of the sound that were read */
  int64_t calls, drafted, accepted; /* of the target; tokens: proposed, emitted */
  int32_t ended;                    /* 1: all was said, and this is no segment */
} edgespec_segment;

/* EDGESPEC_ABI of the library, and the version of edgespec that it is part of. */
EDGESPEC_API uint32_t edgespec_abi(void);
EDGESPEC_API const char* edgespec_version(void);

/* Why the thread's latest call failed; valid until its next one. */
EDGESPEC_API const char* edgespec_message(void);

EDGESPEC_API void edgespec_load_options_defaults(edgespec_load_options* options);
EDGESPEC_API void edgespec_options_defaults(edgespec_options* options);
EDGESPEC_API void edgespec_transcript_options_defaults(edgespec_transcript_options* options);

/* What a pair will take, from its manifest alone. options may be NULL. */
EDGESPEC_API edgespec_status edgespec_estimate(const char* folder,
                                               const edgespec_load_options* options,
                                               edgespec_memory* memory);

/* Opens the pair that `edgespec export` wrote to a folder; paths are UTF-8. options may be NULL.
 *
 * Where nobody has measured on this machine whether the target is exact, it is measured now: that
 * takes seconds, and the folder keeps the result if it can be written. */
EDGESPEC_API edgespec_status edgespec_load(const char* folder, const edgespec_load_options* options,
                                           edgespec_model** model);
EDGESPEC_API void edgespec_close(edgespec_model* model);

/* A session, with the memory of its caches. */
EDGESPEC_API edgespec_status edgespec_open_session(edgespec_model* model,
                                                   edgespec_session** session);
EDGESPEC_API void edgespec_close_session(edgespec_session* session);

/* Another session with the same caches and text, which goes on from here as this one does. */
EDGESPEC_API edgespec_status edgespec_fork(edgespec_session* session, edgespec_session** fork);

/* Writes a session to a file: its caches, and the text that is being made. The file is replaced if
 * it is there, and is whole or not there at all. */
EDGESPEC_API edgespec_status edgespec_save(edgespec_session* session, const char* file);

/* Opens a saved session, which goes on with its text as the saved one did, bit for bit on a machine
 * of the same kind. Refused: a file that is damaged, or of another folder, number formats, capacity
 * or version of the kernels. */
EDGESPEC_API edgespec_status edgespec_load_session(edgespec_model* model, const char* file,
                                                   edgespec_session** session);

/* Begins a text; one that has not ended is dropped. Reads the prompt with the target: with its
 * encoder, where it is an encoder-decoder.
 *
 * prompt: token ids, at least one. options may be NULL. seed: is told the seed; may be NULL. */
EDGESPEC_API edgespec_status edgespec_begin(edgespec_session* session, const int64_t* prompt,
                                            size_t prompt_count, const edgespec_options* options,
                                            uint64_t* seed);

/* The same for a text in UTF-8. Special tokens that it spells out are tokens. */
EDGESPEC_API edgespec_status edgespec_begin_text(edgespec_session* session, const char* prompt,
                                                 const edgespec_options* options, uint64_t* seed);

/* The same for a conversation: perhaps a system message, then user and assistant in turns, and a
 * user's last. Special tokens that a message spells out are ordinary text. */
EDGESPEC_API edgespec_status edgespec_begin_chat(edgespec_session* session,
                                                 const edgespec_turn* turns, size_t turns_count,
                                                 const edgespec_options* options, uint64_t* seed);

/* The next piece. A text ends with a piece that has an ending and no tokens, and has it again for
 * every later call. */
EDGESPEC_API edgespec_status edgespec_next(edgespec_session* session, edgespec_piece* piece);

/* Begins the transcript of a sound with a speech model, such as a Whisper; one that has not ended
 * is dropped. The sound is copied, and read window by window.
 *
 * samples: mono, 16,000 a second, about -1 to 1; at least 10 milliseconds. options may be NULL. */
EDGESPEC_API edgespec_status edgespec_begin_transcript(edgespec_session* session,
                                                       const float* samples, size_t samples_count,
                                                       const edgespec_transcript_options* options);

/* The next segment, after as many windows as it takes. A transcript ends with a segment that has
 * `ended`, and has it again for every later call. */
EDGESPEC_API edgespec_status edgespec_next_segment(edgespec_session* session,
                                                   edgespec_segment* segment);

/* How many positions of the latest prompt were read so far, and how many there were to read: those
 * that the caches did not hold. Any thread may ask, while edgespec_begin runs. */
EDGESPEC_API edgespec_status edgespec_prompt_progress(edgespec_session* session, int64_t* read,
                                                      int64_t* to_read);

/* Ends the text or transcript that is being made, from any thread: edgespec_begin, edgespec_next or
 * edgespec_next_segment returns EDGESPEC_CANCELLED before its next call of a model. Another may
 * begin then. */
EDGESPEC_API void edgespec_cancel(edgespec_session* session);

/* A batch of so many texts at once, each with caches of its own. Refused where texts that share
 * calls might differ from those alone: the folder's number format, or what was measured on this
 * machine, says so. A batch is used by one thread at a time, like a session, and cannot be forked
 * or saved. */
EDGESPEC_API edgespec_status edgespec_open_batch(edgespec_model* model, size_t texts,
                                                 edgespec_batch** batch);
EDGESPEC_API void edgespec_close_batch(edgespec_batch* batch);

/* Adds a text beside those that are being made, at any moment. Refused where as many are made as
 * the batch was opened for. What the batch's caches hold of the prompt is not computed again, and
 * prompts that begin alike are read once. gamma: EDGESPEC_GAMMA_AUTO goes by how many texts there
 * are, and is faster than any number.
 *
 * text: is told the text's number, counted from 0. seed: as of edgespec_begin. */
EDGESPEC_API edgespec_status edgespec_batch_add(edgespec_batch* batch, const int64_t* prompt,
                                                size_t prompt_count,
                                                const edgespec_options* options, int64_t* text,
                                                uint64_t* seed);
EDGESPEC_API edgespec_status edgespec_batch_add_text(edgespec_batch* batch, const char* prompt,
                                                     const edgespec_options* options, int64_t* text,
                                                     uint64_t* seed);
EDGESPEC_API edgespec_status edgespec_batch_add_chat(edgespec_batch* batch,
                                                     const edgespec_turn* turns, size_t turns_count,
                                                     const edgespec_options* options, int64_t* text,
                                                     uint64_t* seed);

/* No text is being made. */
#define EDGESPEC_NO_TEXT (-1)

/* The next piece of any text, and the text's number; EDGESPEC_NO_TEXT if none is being made. A text
 * ends with a piece that has an ending and no tokens, once, and another may be added in its place.
 * An error of a text ends it alone: its number is told with the status, and the others go on. */
EDGESPEC_API edgespec_status edgespec_batch_next(edgespec_batch* batch, int64_t* text,
                                                 edgespec_piece* piece);

/* The progress of a text's prompt, as of edgespec_prompt_progress; 0 of 0 once it has ended. */
EDGESPEC_API edgespec_status edgespec_batch_progress(edgespec_batch* batch, int64_t text,
                                                     int64_t* read, int64_t* to_read);

/* Takes a text out, from any thread: edgespec_batch_next tells EDGESPEC_CANCELLED with its number,
 * before the next call of a model. One that has ended stays as it is. */
EDGESPEC_API void edgespec_batch_cancel(edgespec_batch* batch, int64_t text);

/* Token ids of a text in UTF-8, which is not empty; and the text of token ids, without special
 * tokens and ids that are no token's.
 *
 * Writes as many as there is room for, and says in count or bytes how many there are: call it with
 * no room first, or again with more. No zero is written behind a text. */
EDGESPEC_API edgespec_status edgespec_encode(const edgespec_model* model, const char* text,
                                             int64_t* tokens, size_t room, size_t* count);
EDGESPEC_API edgespec_status edgespec_decode(const edgespec_model* model, const int64_t* tokens,
                                             size_t tokens_count, char* text, size_t room,
                                             size_t* bytes);

#ifdef __cplusplus
}
#endif

#endif
