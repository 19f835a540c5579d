// What the board has: see mpconfigboard.cmake.
#include PORTS_BOARD
