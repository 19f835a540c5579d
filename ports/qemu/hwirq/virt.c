// hwirq's part for QEMU's RISC-V machine "virt": the clock is the CLINT's (10 MHz), stdin a 16550
// behind the PLIC. It has no interrupts that a program may raise by number, with priorities: here
// lines are bits in memory, which the handler of the CLINT's software interrupt looks through.

#include "py/mphal.h"
#include "shared/runtime/softtimer.h"
#include "chip.h"

#define REG32(address) (*(volatile uint32_t *)(address))
#define REG8(address) (*(volatile uint8_t *)(address))

#define CLINT_MSIP REG32(0x02000000)
#define CLINT_MTIMECMP_LOW REG32(0x02004000)
#define CLINT_MTIMECMP_HIGH REG32(0x02004004)
#define CLINT_MTIME_LOW REG32(0x0200bff8)
#define CLINT_MTIME_HIGH REG32(0x0200bffc)
#define UART_IER REG8(0x10000001)
#define UART_IER_RX (1)
#define UART_SOURCE (10)
#define PLIC_PRIORITY REG32(0x0c000000 + 4 * UART_SOURCE)
#define PLIC_ENABLE REG32(0x0c002000)
#define PLIC_THRESHOLD REG32(0x0c200000)
#define PLIC_CLAIM REG32(0x0c200004)

enum { MTIME_PER_US = 10, MTIME_PER_MS = 10000 };
enum { IRQ_SOFTWARE = 3, IRQ_TIMER = 7, IRQ_EXTERNAL = 11 }; // bits of MIE, places in the table
enum { MSTATUS_MIE = 8 };
enum { PRIO_NONE = 0x100 }; // of code that is no handler's

static volatile uint32_t pending, enabled; // a bit for each line
static uint8_t priorities[N_LINES];
static unsigned running = PRIO_NONE; // the priority of the handler that runs

static uint64_t zero; // in mtime: when ticks_ms was 0
static uint64_t next_ms; // in mtime
static uint64_t timer_at, timer_period; // of chip_timer(), in mtime; period 0: stopped

/******************************************************************************/
// Lines

static void set_bits(volatile uint32_t *bits, uint32_t off, uint32_t on) {
    uint32_t state = hwirq_disable();
    *bits = (*bits & ~off) | on;
    if (pending & enabled) {
        CLINT_MSIP = 1;
    }
    hwirq_enable(state);
}

void chip_line_on(unsigned line) {
    set_bits(&enabled, 0, 1u << line);
}

void chip_line_off(unsigned line) {
    set_bits(&enabled, 1u << line, 0);
}

void chip_line_pend(unsigned line) {
    set_bits(&pending, 0, 1u << line);
}

void chip_line_priority(unsigned line, unsigned priority) {
    priorities[line] = priority;
}

// The line that goes next: ready, and with a lower number than what runs; 0: there is none.
static unsigned next_line(void) {
    uint32_t ready = pending & enabled;
    unsigned found = 0, priority = running;
    for (unsigned line = 1; line < N_LINES; ++line) {
        if ((ready >> line & 1) && priorities[line] < priority) {
            found = line;
            priority = priorities[line];
        }
    }
    return found;
}

// Handlers are open to interrupts, so this may interrupt itself. Lines that have to wait are found
// by the call that was interrupted.
__attribute__((interrupt("machine"))) static void software_handler(void) {
    hwirq_event = true;
    CLINT_MSIP = 0;
    unsigned interrupted = running;
    uint32_t mepc, mstatus;
    __asm volatile ("csrr %0, mepc\ncsrr %1, mstatus" : "=r" (mepc), "=r" (mstatus));
    for (unsigned line; (line = next_line());) {
        pending &= ~(1u << line);
        running = priorities[line];
        hwirq_enable(MSTATUS_MIE);
        hwirq_line(line);
        hwirq_disable();
        running = interrupted;
    }
    __asm volatile ("csrw mepc, %0\ncsrw mstatus, %1" : : "r" (mepc), "r" (mstatus));
}

/******************************************************************************/
// Clock

static uint64_t mtime(void) {
    for (;;) {
        uint32_t high = CLINT_MTIME_HIGH;
        uint32_t low = CLINT_MTIME_LOW;
        if (CLINT_MTIME_HIGH == high) {
            return (uint64_t)high << 32 | low;
        }
    }
}

static void set_alarm(void) {
    uint64_t at = timer_period && timer_at < next_ms ? timer_at : next_ms;
    CLINT_MTIMECMP_HIGH = 0xffffffff; // not before both parts are there
    CLINT_MTIMECMP_LOW = at;
    CLINT_MTIMECMP_HIGH = at >> 32;
}

void chip_timer(uint32_t us) {
    uint32_t state = hwirq_disable();
    timer_period = us * MTIME_PER_US;
    timer_at = mtime() + timer_period;
    set_alarm();
    hwirq_enable(state);
}

mp_uint_t mp_hal_ticks_ms(void) {
    return (mtime() - zero) / MTIME_PER_MS;
}

mp_uint_t mp_hal_ticks_us(void) {
    return (mtime() - zero) / MTIME_PER_US;
}

void chip_set_ticks(uint32_t ms) {
    uint32_t state = hwirq_disable();
    zero = mtime() - (uint64_t)ms * MTIME_PER_MS;
    hwirq_enable(state);
}

// WFI ends by an interrupt also where interrupts are off: none comes between the two lines.
void chip_idle(void) {
    uint32_t state = hwirq_disable();
    if (!hwirq_event) {
        __asm volatile ("wfi");
    }
    hwirq_enable(state);
}

__attribute__((interrupt("machine"))) static void timer_handler(void) {
    hwirq_event = true;
    uint64_t now = mtime();
    if (now >= next_ms) {
        while (now >= next_ms) {
            next_ms += MTIME_PER_MS;
        }
        if (hwirq_soft_timers_due(mp_hal_ticks_ms())) {
            soft_timer_handler();
        }
    }
    if (timer_period && now >= timer_at) {
        while (now >= timer_at) {
            timer_at += timer_period;
        }
        chip_line_pend(TIMER_LINE);
    }
    set_alarm();
}

/******************************************************************************/
// stdin

__attribute__((interrupt("machine"))) static void external_handler(void) {
    hwirq_event = true;
    uint32_t source = PLIC_CLAIM;
    if (!hwirq_stdin()) {
        UART_IER = 0;
    }
    PLIC_CLAIM = source;
}

void chip_stdin(void) {
    UART_IER = UART_IER_RX;
}

/******************************************************************************/
// Start

// The port's own table has no room for other handlers; exceptions stay with it.
__attribute__((naked, aligned(256))) static void vectors(void) {
    __asm volatile (
        ".option push\n.option norvc\n.option norelax\n"
        "j mtvec_exception\n"
        ".org vectors + 4 * %0\nj %1\n"
        ".org vectors + 4 * %2\nj %3\n"
        ".org vectors + 4 * %4\nj %5\n"
        ".option pop\n"
        : : "i" (IRQ_SOFTWARE), "i" (software_handler), "i" (IRQ_TIMER), "i" (timer_handler),
        "i" (IRQ_EXTERNAL), "i" (external_handler));
}

void chip_init(void) {
    hwirq_disable();
    pending = enabled = 0;
    timer_period = 0;
    next_ms = mtime() + MTIME_PER_MS;
    set_alarm();
    PLIC_PRIORITY = 1;
    PLIC_ENABLE = 1 << UART_SOURCE;
    PLIC_THRESHOLD = 0;
    chip_stdin();
    uint32_t on = 1 << IRQ_SOFTWARE | 1 << IRQ_TIMER | 1 << IRQ_EXTERNAL;
    uint32_t table = (uint32_t)vectors | 1; // 1: it has an entry for each kind
    __asm volatile ("csrw mtvec, %0\ncsrw mie, %1" : : "r" (table), "r" (on));
    hwirq_enable(MSTATUS_MIE);
}
