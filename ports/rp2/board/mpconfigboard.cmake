# A board as the port has it, less TLS, with the REPL on UART 0 too: built from a source without its
# submodules (then from a pico-sdk and a tinyusb elsewhere), which stays as it is.
#   -DMICROPY_BOARD=RPI_PICO, or RPI_PICO2 for its ARM cores
#   -DPICO_SDK_PATH_OVERRIDE=DIR  -DTINYUSB_PATH_OVERRIDE=DIR
# -DBOARD_WITHOUT_C_TASKS=1 leaves out the C module _asyncio.

set(PORTS_BOARD ${MICROPY_PORT_DIR}/boards/${MICROPY_BOARD})
include(${PORTS_BOARD}/mpconfigboard.cmake)
include(${PORTS_BOARD}/mpconfigvariant.cmake OPTIONAL)
set(MICROPY_BOARD_PINS ${PORTS_BOARD}/pins.csv)
set(GEN_PINS_BOARD_CSV ${MICROPY_BOARD_PINS}) # for MicroPython 1.25
set(GEN_PINS_CSV_ARG --board-csv ${MICROPY_BOARD_PINS})

if(TINYUSB_PATH_OVERRIDE)
    set(PICO_TINYUSB_PATH ${TINYUSB_PATH_OVERRIDE})
endif()

# The port sets this to ON right after it has read this file, and links this library in any case.
macro(board_without_mbedtls variable access)
    if(${access} STREQUAL MODIFIED_ACCESS)
        set(${variable} OFF)
    endif()
endmacro()
variable_watch(MICROPY_SSL_MBEDTLS board_without_mbedtls)
add_library(micropy_lib_mbedtls INTERFACE)

list(APPEND MICROPY_DEF_BOARD MP_CONFIGFILE=<mpconfigport_board.h>)
list(APPEND MICROPY_DEF_BOARD PORTS_BOARD=<boards/${MICROPY_BOARD}/mpconfigboard.h>)
if(BOARD_WITHOUT_C_TASKS)
    list(APPEND MICROPY_DEF_BOARD MICROPY_PY_ASYNCIO=0)
endif()
list(APPEND MICROPY_DEF_BOARD MICROPY_HW_ENABLE_UART_REPL=1)
