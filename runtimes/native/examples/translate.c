/* Goes on from a text, or translates it, as it is generated: translate PAIR LIBONNXRUNTIME TEXT */
#include <edgespec.h>
#include <stdio.h>

static int failed(void) {
  fprintf(stderr, "%s\n", edgespec_message());
  return 1;
}

int main(int count, char** given) {
  edgespec_load_options where;
  edgespec_options how;
  edgespec_model* model;
  edgespec_session* session;
  edgespec_piece piece = {0};
  if (count != 4) return fprintf(stderr, "translate PAIR LIBONNXRUNTIME TEXT\n"), 2;

  edgespec_load_options_defaults(&where);
  where.onnxruntime = given[2];
  edgespec_options_defaults(&how);
  how.max_new_tokens = 64;
  piece.size = sizeof piece;

  if (edgespec_load(given[1], &where, &model)) return failed();
  if (edgespec_open_session(model, &session)) return failed();
  if (edgespec_begin_text(session, given[3], &how, NULL)) return failed();
  while (piece.ending == EDGESPEC_GOES_ON) {
    if (edgespec_next(session, &piece)) return failed();
    fwrite(piece.text, 1, piece.text_bytes, stdout);
    fflush(stdout);
  }
  edgespec_close_session(session);
  edgespec_close(model);
  return 0;
}
