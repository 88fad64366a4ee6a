// What a shared library shows of itself.
#pragma once

#ifdef _WIN32
#define EDGESPEC_EXPORT __declspec(dllexport)
#else
#define EDGESPEC_EXPORT __attribute__((visibility("default")))
#endif
