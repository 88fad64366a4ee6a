// Asks the system for tiles before a test begins, as the dispatcher does where kernels are loaded.
#include "dispatch/processor.h"

static const bool granted = edgespec::system_grants_tiles();
