// Goes on from several texts at once, and prints tokens: together PAIR LIBONNXRUNTIME TEXT…
#include <edgespec.h>
#include <stdio.h>

static int failed(void) {
  fprintf(stderr, "%s\n", edgespec_message());
  return 1;
}

int main(int count, char** given) {
  if (count < 4) return fprintf(stderr, "together PAIR LIBONNXRUNTIME TEXT…\n"), 2;
  edgespec_load_options where;
  edgespec_load_options_defaults(&where);
  where.onnxruntime = given[2];
  edgespec_model* model;
  if (edgespec_load(given[1], &where, &model)) return failed();

  edgespec_batch* batch;
  if (edgespec_open_batch(model, (size_t)(count - 3), &batch)) return failed();
  edgespec_options how;
  edgespec_options_defaults(&how);
  how.gamma = EDGESPEC_GAMMA_AUTO;
  how.max_new_tokens = 32;
  int64_t text;
  for (int i = 3; i < count; i++)
    if (edgespec_batch_add_text(batch, given[i], &how, &text, NULL)) return failed();

  edgespec_piece piece = {0};
  piece.size = sizeof piece;
  for (;;) {  // a piece of any of them, with its number
    if (edgespec_batch_next(batch, &text, &piece)) return failed();
    if (text == EDGESPEC_NO_TEXT) break;
    for (size_t i = 0; i < piece.count; i++)
      printf("%lld %lld\n", (long long)text, (long long)piece.tokens[i]);
  }
  edgespec_close_batch(batch);
  edgespec_close(model);
  return 0;
}
