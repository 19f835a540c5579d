// What an interrupt-driven program needs of a chip and the stock qemu port does not have: a 1 kHz
// clock, soft timers, stdin that interrupts, and the module `hwirq`, which lets Python handle and
// raise interrupts. This is the part that all chips share.
//
//   hwirq.irq(line, handler, hard=False)  call handler(irq) when line 1-31 is raised; None: stop
//   hwirq.pend(line)                      raise it now, as hardware would
//   hwirq.priority(line, n)               a line of a lower number interrupts others; 0x80 at first
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
#include "chip.h"

enum { MAX_US = INT32_MAX / 32 }; // so that no chip's timer overflows

volatile bool hwirq_event;

static volatile bool soft_timer_armed;
static volatile uint32_t soft_timer_due; // in ms, if armed

static uint8_t rx_buf[256]; // ring, written by the UART's interrupt
static volatile uint8_t rx_in, rx_out; // next index to write and to read; equal when empty

/******************************************************************************/
// Time and soft timers

// As a core's WFE, which QEMU does not model.
void hwirq_wfe(void) {
    while (!hwirq_event) {
        chip_idle();
    }
    hwirq_event = false;
}

bool hwirq_soft_timers_due(uint32_t ms) {
    if (!soft_timer_armed || (int32_t)(ms - soft_timer_due) < 0) {
        return false;
    }
    soft_timer_armed = false;
    return true;
}

uint32_t soft_timer_get_ms(void) {
    return mp_hal_ticks_ms();
}

void soft_timer_schedule_at_ms(uint32_t at) {
    uint32_t state = hwirq_disable();
    soft_timer_due = at;
    soft_timer_armed = true;
    hwirq_enable(state);
}

mp_uint_t mp_hal_ticks_cpu(void) {
    return mp_hal_ticks_us();
}

void mp_hal_delay_ms(mp_uint_t ms) {
    mp_uint_t start = mp_hal_ticks_ms();
    for (mp_uint_t gone; (gone = mp_hal_ticks_ms() - start) < ms;) {
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

bool hwirq_stdin(void) {
    for (;;) {
        uint8_t next = rx_in + 1;
        if (next == rx_out) {
            return false; // the sender waits until some of it has been read
        }
        int c = uart_rx_chr();
        if (c < 0) {
            return true;
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
    chip_stdin();
    return c;
}

/******************************************************************************/
// Interrupts handled in Python

MP_REGISTER_ROOT_POINTER(void *hwirq_handlers[32]); // a mp_irq_obj_t, or NULL, for each line

static mp_uint_t hwirq_trigger(mp_obj_t line, mp_uint_t on) {
    (on ? chip_line_on : chip_line_off)(MP_OBJ_SMALL_INT_VALUE(line));
    return 0;
}

static mp_uint_t hwirq_info(mp_obj_t line, mp_uint_t type) {
    return 0;
}

static const mp_irq_methods_t hwirq_methods = { .trigger = hwirq_trigger, .info = hwirq_info };

void hwirq_line(unsigned line) {
    mp_irq_handler(MP_STATE_PORT(hwirq_handlers)[line]);
}

static unsigned get_line(mp_obj_t arg) {
    mp_int_t line = mp_obj_get_int(arg);
    if (line < 1 || line >= N_LINES) {
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

    chip_line_off(line);
    mp_irq_obj_t *irq = mp_irq_new(&hwirq_methods, MP_OBJ_NEW_SMALL_INT(line));
    irq->handler = args[ARG_handler].u_obj;
    irq->ishard = args[ARG_hard].u_bool;
    MP_STATE_PORT(hwirq_handlers)[line] = irq;
    chip_line_priority(line, PRIO_PYTHON);
    if (irq->handler != mp_const_none) {
        chip_line_on(line);
    }
    return MP_OBJ_FROM_PTR(irq);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(hwirq_irq_obj, 2, hwirq_irq);

static mp_obj_t hwirq_pend(mp_obj_t line) {
    chip_line_pend(get_line(line));
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(hwirq_pend_obj, hwirq_pend);

static mp_obj_t hwirq_priority(mp_obj_t line, mp_obj_t number) {
    mp_int_t priority = mp_obj_get_int(number);
    if (priority < 0x50 || priority > 0xff) {
        mp_raise_ValueError(MP_ERROR_TEXT("priority must be 0x50 to 0xff"));
    }
    chip_line_priority(get_line(line), priority);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_2(hwirq_priority_obj, hwirq_priority);

static mp_obj_t hwirq_timer(mp_obj_t us_in) {
    mp_int_t us = mp_obj_get_int(us_in);
    if (us < 0 || us > MAX_US) {
        mp_raise_ValueError(MP_ERROR_TEXT("us out of range"));
    }
    chip_timer(us);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(hwirq_timer_obj, hwirq_timer);

static mp_obj_t hwirq_set_ticks(mp_obj_t ms) {
    chip_set_ticks(mp_obj_get_int_truncated(ms));
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(hwirq_set_ticks_obj, hwirq_set_ticks);

static const mp_rom_map_elem_t hwirq_globals_table[] = {
    { MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_hwirq) },
    { MP_ROM_QSTR(MP_QSTR_irq), MP_ROM_PTR(&hwirq_irq_obj) },
    { MP_ROM_QSTR(MP_QSTR_pend), MP_ROM_PTR(&hwirq_pend_obj) },
    { MP_ROM_QSTR(MP_QSTR_priority), MP_ROM_PTR(&hwirq_priority_obj) },
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
    chip_init();
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
    chip_timer(0);
    for (unsigned line = 1; line < N_LINES; ++line) {
        chip_line_off(line);
    }
    soft_timer_deinit();
    __real_gc_sweep_all();
}
