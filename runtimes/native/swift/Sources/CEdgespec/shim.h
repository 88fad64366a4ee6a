#include <edgespec.h>
