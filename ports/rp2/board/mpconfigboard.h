// What the board has: see mpconfigboard.cmake.
#include "boards/RPI_PICO/mpconfigboard.h"
#define MICROPY_HW_ENABLE_UART_REPL (1)
