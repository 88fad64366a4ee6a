/* Says what is said in a sound, and when: transcribe PAIR LIBONNXRUNTIME SOUND
 * SOUND is raw: ffmpeg -i speech.mp3 -ac 1 -ar 16000 -f f32le speech.f32 */
#include <edgespec.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(void) {
  fprintf(stderr, "%s\n", edgespec_message());
  return 1;
}

int main(int count, char** given) {
  edgespec_load_options where;
  edgespec_model* model;
  edgespec_session* session;
  edgespec_segment segment = {0};
  if (count != 4) return fprintf(stderr, "transcribe PAIR LIBONNXRUNTIME SOUND\n"), 2;
  FILE* file = fopen(given[3], "rb");
  if (!file || fseek(file, 0, SEEK_END)) return perror(given[3]), 1;
  const size_t samples = (size_t)ftell(file) / sizeof(float);
  float* sound = malloc(samples * sizeof(float) + 1);
  rewind(file);
  if (!sound || fread(sound, sizeof(float), samples, file) != samples) return perror(given[3]), 1;

  edgespec_load_options_defaults(&where);
  where.onnxruntime = given[2];
  segment.size = sizeof segment;
  if (edgespec_load(given[1], &where, &model)) return failed();
  if (edgespec_open_session(model, &session)) return failed();
  if (edgespec_begin_transcript(session, sound, samples, NULL)) return failed();
  free(sound);
  for (;;) {
    if (edgespec_next_segment(session, &segment)) return failed();
    if (segment.ended) break;
    printf("%.2f %.2f %s\n", segment.start, segment.end, segment.text);
  }
  edgespec_close_session(session);
  edgespec_close(model);
  return 0;
}
