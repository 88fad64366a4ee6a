/* ONNX Runtime with a clock around its calls: what libedgespec loads to tell its own time from theirs.
 *
 *   cc -shared -fPIC -O2 -isystem runtimes/kernels/third_party/onnxruntime benchmarks/run_timer.c -o run_timer.so
 *
 * The real library is $RUN_TIMER_LIBRARY. One model in one thread at a time. */
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static const OrtApiBase* real;
static OrtApiBase base;
static OrtApi timed;
static OrtStatus* (*real_run)(OrtSession*, const OrtRunOptions*, const char* const*, const OrtValue* const*,
                              size_t, const char* const*, size_t, OrtValue**);
static OrtStatus* (*real_bound)(OrtSession*, const OrtRunOptions*, const OrtIoBinding*);
static int64_t spent, calls;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static OrtStatus* run(OrtSession* session, const OrtRunOptions* options, const char* const* names,
                      const OrtValue* const* inputs, size_t count, const char* const* outputs, size_t made,
                      OrtValue** values) {
  const int64_t began = now();
  OrtStatus* status = real_run(session, options, names, inputs, count, outputs, made, values);
  spent += now() - began;
  calls++;
  return status;
}

static OrtStatus* run_bound(OrtSession* session, const OrtRunOptions* options, const OrtIoBinding* binding) {
  const int64_t began = now();
  OrtStatus* status = real_bound(session, options, binding);
  spent += now() - began;
  calls++;
  return status;
}

static const OrtApi* get_api(uint32_t version) {
  const OrtApi* api = real->GetApi(version);
  if (api == NULL) return NULL;
  timed = *api;
  real_run = api->Run;
  real_bound = api->RunWithBinding;
  timed.Run = run;
  timed.RunWithBinding = run_bound;
  return &timed;
}

const OrtApiBase* OrtGetApiBase(void) {
  void* library = dlopen(getenv("RUN_TIMER_LIBRARY"), RTLD_NOW | RTLD_GLOBAL);
  const OrtApiBase* (*get)(void) = library ? (const OrtApiBase* (*)(void))dlsym(library, "OrtGetApiBase") : NULL;
  if (get == NULL) abort();
  real = get();
  base = *real;
  base.GetApi = get_api;
  return &base;
}

/* Nanoseconds and number of ONNX Runtime's calls since the last time this was asked. */
void run_timer_taken(int64_t* nanoseconds, int64_t* count) {
  *nanoseconds = spent;
  *count = calls;
  spent = calls = 0;
}
