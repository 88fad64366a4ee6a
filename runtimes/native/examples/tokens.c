// Goes on from token ids: tokens PAIR LIBONNXRUNTIME TOKEN…
#include <edgespec.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(void) {
  fprintf(stderr, "%s\n", edgespec_message());
  return 1;
}

int main(int count, char** given) {
  if (count < 4) return fprintf(stderr, "tokens PAIR LIBONNXRUNTIME TOKEN…\n"), 2;
  int64_t prompt[256];
  size_t tokens = 0;
  for (int i = 3; i < count && tokens < 256; i++) prompt[tokens++] = strtoll(given[i], NULL, 10);

  edgespec_load_options where;
  edgespec_load_options_defaults(&where);
  where.onnxruntime = given[2];
  edgespec_model* model;
  if (edgespec_load(given[1], &where, &model)) return failed();

  edgespec_session* session;
  edgespec_options how;
  edgespec_options_defaults(&how);
  how.max_new_tokens = 32;
  if (edgespec_open_session(model, &session)) return failed();
  if (edgespec_begin(session, prompt, tokens, &how, NULL)) return failed();

  edgespec_piece piece = {0};
  piece.size = sizeof piece;
  for (;;) {
    if (edgespec_next(session, &piece)) return failed();
    if (piece.ending) break;
    for (size_t i = 0; i < piece.count; i++) printf("%lld\n", (long long)piece.tokens[i]);
  }
  edgespec_close_session(session);
  edgespec_close(model);
  return 0;
}
