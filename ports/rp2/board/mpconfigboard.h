// What the board has: see mpconfigboard.cmake.
#include "boards/RPI_PICO/mpconfigboard.h"
