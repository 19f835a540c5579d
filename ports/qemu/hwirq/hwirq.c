// What an interrupt-driven program needs of a Cortex-M3 and the stock qemu port does not have: a
// 1 kHz clock, soft timers, stdin that interrupts, and the module `hwirq`, which lets Python handle
// and raise interrupts. For QEMU's mps2-an385 only: CMSDK UART 0, CMSDK timer 0, 25 MHz.
//
//   hwirq.irq(line, handler, hard=False)  call handler(irq) when NVIC line 1-31 is raised; None: stop
//   hwirq.pend(line)                      raise it now, as hardware would
//   hwirq.TIMER                           the line of a hardware timer
//   hwirq.timer(us)                       raise that line every `us` microseconds; 0 stops
//   hwirq.set_ticks(ms)                   go on counting time.ticks_ms() from here

#include <string.h>

#include "py/runtime.h"
#include "py/mphal.h"
#include "py/gc.h"
#include "py/stream.h"
#include "shared/runtime/gchelper.h"
#include "shared/runtime/interrupt_char.h"
#include "shared/runtime/mpirq.h"
#include "shared/runtime/softtimer.h"
#include "ports/qemu/uart.h"

#define CPU_HZ (25000000)
#define TICKS_PER_MS (CPU_HZ / 1000)
#define TICKS_PER_US (CPU_HZ / 1000000)

#define REG32(address) (*(volatile uint32_t *)(address))
#define TIMER_CTRL REG32(0x40000000)
#define TIMER_VALUE REG32(0x40000004)
#define TIMER_RELOAD REG32(0x40000008)
#define TIMER_INTCLEAR REG32(0x4000000c)
#define TIMER_CTRL_ENABLE (1 << 0 | 1 << 3) // count, and interrupt at 0
#define UART_CTRL REG32(0x40004008)
#define UART_CTRL_RX_INT (1 << 3)
#define UART_INTCLEAR REG32(0x4000400c)
#define UART_INT_RX (1 << 1)
#define SYST_CSR REG32(0xe000e010)
#define SYST_CSR_ON (7) // count CPU cycles, interrupt at 0
#define SYST_RVR REG32(0xe000e014)
#define SYST_CVR REG32(0xe000e018)
#define NVIC_ISER REG32(0xe000e100)
#define NVIC_ICER REG32(0xe000e180)
#define NVIC_ISPR REG32(0xe000e200)
#define NVIC_IPR ((volatile uint8_t *)0xe000e400)
#define SCB_ICSR REG32(0xe000ed04)
#define SCB_ICSR_PENDSTSET (1 << 26)
#define SCB_ICSR_PENDSVSET (1 << 28)
#define SCB_VTOR REG32(0xe000ed08)
#define SCB_SHPR3 REG32(0xe000ed20) // priorities: SysTick in the top byte, PendSV below it

enum { UART_LINE = 0, TIMER_LINE = 8, N_LINES = 32 }; // of the 32 NVIC lines
enum { N_SYSTEM = 16 }; // exceptions ahead of them in the vector table

// A lower number goes first. Handlers in Python run above the UART and PendSV, below the clock.
enum { PRIO_SYSTICK = 0x40, PRIO_PYTHON = 0x80, PRIO_UART = 0xc0, PRIO_PENDSV = 0xe0 };

extern const uint32_t isr_vector[];
static uint32_t vectors[N_SYSTEM + N_LINES] __attribute__((aligned(256)));

static volatile uint32_t ticks_ms;
static volatile bool event; // the core's event register: an interrupt has come

static volatile bool soft_timer_armed;
static volatile uint32_t soft_timer_due; // in ticks_ms, if armed

static uint8_t rx_buf[256]; // ring, written by the UART's interrupt
static volatile uint8_t rx_in, rx_out; // next index to write and to read; equal when empty

static void line_on(unsigned line) {
    NVIC_ISER = 1u << line;
}

static void line_off(unsigned line) {
    NVIC_ICER = 1u << line;
    __asm volatile ("dsb\nisb");
}

static void line_pend(unsigned line) {
    NVIC_ISPR = 1u << line;
    __asm volatile ("dsb\nisb");
}

/******************************************************************************/
// Clock and soft timers

// As the core's WFE, which QEMU does not model. WFI will not do: when QEMU counts instructions
// (-icount) with nothing to run, its timers skip every second interrupt.
void hwirq_wfe(void) {
    while (!event) {
    }
    event = false;
}

static void systick_handler(void) {
    event = true;
    ++ticks_ms;
    if (soft_timer_armed && (int32_t)(ticks_ms - soft_timer_due) >= 0) {
        soft_timer_armed = false;
        SCB_ICSR = SCB_ICSR_PENDSVSET;
    }
}

static void pendsv_handler(void) {
    event = true;
    soft_timer_handler();
}

uint32_t soft_timer_get_ms(void) {
    return ticks_ms;
}

void soft_timer_schedule_at_ms(uint32_t at) {
    uint32_t state = hwirq_disable();
    soft_timer_due = at;
    soft_timer_armed = true;
    hwirq_enable(state);
}

mp_uint_t mp_hal_ticks_ms(void) {
    return ticks_ms;
}

mp_uint_t mp_hal_ticks_us(void) {
    uint32_t state = hwirq_disable();
    uint32_t left = SYST_CVR;
    uint32_t ms = ticks_ms;
    if (SCB_ICSR & SCB_ICSR_PENDSTSET) { // a millisecond has ended and is not counted yet
        left = SYST_CVR;
        ++ms;
    }
    hwirq_enable(state);
    return ms * 1000 + (TICKS_PER_MS - 1 - left) / TICKS_PER_US;
}

mp_uint_t mp_hal_ticks_cpu(void) {
    return mp_hal_ticks_us();
}

void mp_hal_delay_ms(mp_uint_t ms) {
    mp_uint_t start = ticks_ms;
    for (mp_uint_t gone; (gone = ticks_ms - start) < ms;) {
        mp_event_wait_ms(ms - gone);
    }
    mp_handle_pending(true);
}

void mp_hal_delay_us(mp_uint_t us) {
    mp_uint_t start = mp_hal_ticks_us();
    while (mp_hal_ticks_us() - start < us) {
    }
}

/******************************************************************************/
// stdin

static void uart_handler(void) {
    event = true;
    for (;;) {
        uint8_t next = rx_in + 1;
        if (next == rx_out) {
            line_off(UART_LINE); // full: the sender waits until some of it has been read
            return;
        }
        UART_INTCLEAR = UART_INT_RX;
        int c = uart_rx_chr();
        if (c < 0) {
            return;
        }
        if (c == mp_interrupt_char) {
            mp_sched_keyboard_interrupt();
        } else {
            rx_buf[rx_in] = c;
            rx_in = next;
        }
    }
}

uintptr_t __wrap_mp_hal_stdio_poll(uintptr_t flags) {
    uintptr_t ready = flags & MP_STREAM_POLL_WR;
    if (rx_in != rx_out) {
        ready |= flags & MP_STREAM_POLL_RD;
    }
    return ready;
}

int __wrap_mp_hal_stdin_rx_chr(void) {
    while (rx_in == rx_out) {
        mp_event_wait_indefinite();
    }
    int c = rx_buf[rx_out++];
    line_on(UART_LINE);
    return c;
}

/******************************************************************************/
// Interrupts handled in Python

MP_REGISTER_ROOT_POINTER(void *hwirq_handlers[32]); // a mp_irq_obj_t, or NULL, for each line

static mp_uint_t hwirq_trigger(mp_obj_t line, mp_uint_t on) {
    (on ? line_on : line_off)(MP_OBJ_SMALL_INT_VALUE(line));
    return 0;
}

static mp_uint_t hwirq_info(mp_obj_t line, mp_uint_t type) {
    return 0;
}

static const mp_irq_methods_t hwirq_methods = { .trigger = hwirq_trigger, .info = hwirq_info };

static void python_handler(void) {
    event = true;
    uint32_t exception;
    __asm volatile ("mrs %0, ipsr" : "=r" (exception));
    unsigned line = exception - N_SYSTEM;
    if (line == TIMER_LINE) {
        TIMER_INTCLEAR = 1;
    }
    mp_irq_handler(MP_STATE_PORT(hwirq_handlers)[line]);
}

static unsigned get_line(mp_obj_t arg) {
    mp_int_t line = mp_obj_get_int(arg);
    if (line < 0 || line >= N_LINES || line == UART_LINE) {
        mp_raise_ValueError(MP_ERROR_TEXT("line must be 1 to 31"));
    }
    return line;
}

static mp_obj_t hwirq_irq(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    enum { ARG_line, ARG_handler, ARG_hard };
    static const mp_arg_t allowed[] = {
        { MP_QSTR_line, MP_ARG_REQUIRED | MP_ARG_OBJ },
        { MP_QSTR_handler, MP_ARG_REQUIRED | MP_ARG_OBJ },
        { MP_QSTR_hard, MP_ARG_BOOL, { .u_bool = false } },
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all(n_args, pos_args, kw_args, MP_ARRAY_SIZE(allowed), allowed, args);
    unsigned line = get_line(args[ARG_line].u_obj);

    line_off(line);
    mp_irq_obj_t *irq = mp_irq_new(&hwirq_methods, MP_OBJ_NEW_SMALL_INT(line));
    irq->handler = args[ARG_handler].u_obj;
    irq->ishard = args[ARG_hard].u_bool;
    MP_STATE_PORT(hwirq_handlers)[line] = irq;
    NVIC_IPR[line] = PRIO_PYTHON;
    if (irq->handler != mp_const_none) {
        line_on(line);
    }
    return MP_OBJ_FROM_PTR(irq);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(hwirq_irq_obj, 2, hwirq_irq);

static mp_obj_t hwirq_pend(mp_obj_t line) {
    line_pend(get_line(line));
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(hwirq_pend_obj, hwirq_pend);

static mp_obj_t hwirq_timer(mp_obj_t us_in) {
    mp_int_t us = mp_obj_get_int(us_in);
    if (us < 0 || us > INT32_MAX / TICKS_PER_US) {
        mp_raise_ValueError(MP_ERROR_TEXT("us out of range"));
    }
    TIMER_CTRL = 0;
    if (us) {
        TIMER_RELOAD = TIMER_VALUE = us * TICKS_PER_US - 1;
        TIMER_CTRL = TIMER_CTRL_ENABLE;
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(hwirq_timer_obj, hwirq_timer);

static mp_obj_t hwirq_set_ticks(mp_obj_t ms) {
    ticks_ms = mp_obj_get_int_truncated(ms);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(hwirq_set_ticks_obj, hwirq_set_ticks);

static const mp_rom_map_elem_t hwirq_globals_table[] = {
    { MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_hwirq) },
    { MP_ROM_QSTR(MP_QSTR_irq), MP_ROM_PTR(&hwirq_irq_obj) },
    { MP_ROM_QSTR(MP_QSTR_pend), MP_ROM_PTR(&hwirq_pend_obj) },
    { MP_ROM_QSTR(MP_QSTR_timer), MP_ROM_PTR(&hwirq_timer_obj) },
    { MP_ROM_QSTR(MP_QSTR_TIMER), MP_ROM_INT(TIMER_LINE) },
    { MP_ROM_QSTR(MP_QSTR_set_ticks), MP_ROM_PTR(&hwirq_set_ticks_obj) },
};
static MP_DEFINE_CONST_DICT(hwirq_globals, hwirq_globals_table);

const mp_obj_module_t hwirq_module = {
    .base = { &mp_type_module },
    .globals = (mp_obj_dict_t *)&hwirq_globals,
};
MP_REGISTER_MODULE(MP_QSTR_hwirq, hwirq_module);

/******************************************************************************/
// Start, garbage collection, soft reset

// Called by mp_init(), so after a soft reset too.
void hwirq_init(void) {
    memset(MP_STATE_PORT(hwirq_handlers), 0, sizeof(MP_STATE_PORT(hwirq_handlers)));
    memcpy(vectors, isr_vector, N_SYSTEM * sizeof(uint32_t));
    vectors[14] = (uint32_t)pendsv_handler;
    vectors[15] = (uint32_t)systick_handler;
    for (unsigned line = 0; line < N_LINES; ++line) {
        vectors[N_SYSTEM + line] = (uint32_t)(line == UART_LINE ? uart_handler : python_handler);
    }
    SCB_VTOR = (uint32_t)vectors;
    SCB_SHPR3 = (uint32_t)PRIO_SYSTICK << 24 | PRIO_PENDSV << 16;
    SYST_RVR = TICKS_PER_MS - 1;
    SYST_CSR = SYST_CSR_ON;
    NVIC_IPR[UART_LINE] = PRIO_UART;
    UART_CTRL |= UART_CTRL_RX_INT;
    line_on(UART_LINE);
    line_pend(UART_LINE); // for what came earlier
}

// In place of the port's own, which knows no soft timers.
void __wrap_gc_collect(void) {
    gc_collect_start();
    gc_helper_collect_regs_and_stack();
    soft_timer_gc_mark_all();
    gc_collect_end();
}

// The port's main() calls it at a soft reset, when nothing in Python may be called any more.
void __real_gc_sweep_all(void);
void __wrap_gc_sweep_all(void) {
    TIMER_CTRL = 0;
    for (unsigned line = 0; line < N_LINES; ++line) {
        if (line != UART_LINE) {
            line_off(line);
        }
    }
    soft_timer_deinit();
    __real_gc_sweep_all();
}
