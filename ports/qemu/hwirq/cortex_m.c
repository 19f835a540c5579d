// hwirq's part for ARM's Cortex-M: QEMU's boards mps2-an385 and mps2-an386 (M3 and M4, 25 MHz, CMSDK
// peripherals), and microbit (M0, 16 MHz, an nRF51).

#include "py/mphal.h"
#include "shared/runtime/softtimer.h"
#include "chip.h"

#define REG32(address) (*(volatile uint32_t *)(address))

#define SYST_CSR REG32(0xe000e010)
#define SYST_CSR_ON (7) // count CPU cycles, interrupt at 0
#define SYST_RVR REG32(0xe000e014)
#define SYST_CVR REG32(0xe000e018)
#define NVIC_ISER REG32(0xe000e100)
#define NVIC_ICER REG32(0xe000e180)
#define NVIC_ISPR REG32(0xe000e200)
#define NVIC_IPR(line) REG32(0xe000e400 + ((line) & ~3)) // an M0 has no access by bytes
#define SCB_ICSR REG32(0xe000ed04)
#define SCB_ICSR_PENDSTSET (1 << 26)
#define SCB_ICSR_PENDSVSET (1 << 28)
#define SCB_SHPR3 REG32(0xe000ed20) // priorities: SysTick in the top byte, PendSV below it
#define FPU_CPACR REG32(0xe000ed88)

// Handlers in Python run above the UART and PendSV, below the clock. An M0 has the top 2 bits only.
enum { PRIO_SYSTICK = 0x40, PRIO_UART = 0xc0, PRIO_PENDSV = 0xe0 };
enum { N_SYSTEM = 16 }; // exceptions ahead of the lines in the vector table

#if defined(QEMU_SOC_NRF51)

enum { CPU_HZ = 16000000, UART_LINE = 2 };
#define UART_INTENSET REG32(0x40002304)
#define UART_INT_RX (1 << 2)
#define TIMER_START REG32(0x40008000)
#define TIMER_STOP REG32(0x40008004)
#define TIMER_CLEAR REG32(0x4000800c)
#define TIMER_COMPARE REG32(0x40008140)
#define TIMER_SHORTS REG32(0x40008200)
#define TIMER_SHORTS_CLEAR (1) // begin again when it has counted so far
#define TIMER_INTENSET REG32(0x40008304)
#define TIMER_INT_COMPARE (1 << 16)
#define TIMER_BITMODE REG32(0x40008508)
#define TIMER_BITMODE_32 (3)
#define TIMER_PRESCALER REG32(0x40008510)
#define TIMER_PRESCALER_1MHZ (4)
#define TIMER_CC REG32(0x40008540)

static void uart_interrupt_on(void) {
    UART_INTENSET = UART_INT_RX;
}

static void uart_interrupt_clear(void) {
}

static void timer_interrupt_clear(void) {
    TIMER_COMPARE = 0;
}

void chip_timer(uint32_t us) {
    TIMER_STOP = 1;
    TIMER_COMPARE = 0;
    if (us) {
        TIMER_BITMODE = TIMER_BITMODE_32;
        TIMER_PRESCALER = TIMER_PRESCALER_1MHZ;
        TIMER_CC = us;
        TIMER_SHORTS = TIMER_SHORTS_CLEAR;
        TIMER_INTENSET = TIMER_INT_COMPARE;
        TIMER_CLEAR = 1;
        TIMER_START = 1;
    }
}

#else

enum { CPU_HZ = 25000000, UART_LINE = 0 };
#define UART_CTRL REG32(0x40004008)
#define UART_CTRL_RX_INT (1 << 3)
#define UART_INTCLEAR REG32(0x4000400c)
#define UART_INT_RX (1 << 1)
#define TIMER_CTRL REG32(0x40000000)
#define TIMER_CTRL_ENABLE (1 << 0 | 1 << 3) // count, and interrupt at 0
#define TIMER_VALUE REG32(0x40000004)
#define TIMER_RELOAD REG32(0x40000008)
#define TIMER_INTCLEAR REG32(0x4000000c)

static void uart_interrupt_on(void) {
    UART_CTRL |= UART_CTRL_RX_INT;
}

static void uart_interrupt_clear(void) {
    UART_INTCLEAR = UART_INT_RX;
}

static void timer_interrupt_clear(void) {
    TIMER_INTCLEAR = 1;
}

void chip_timer(uint32_t us) {
    TIMER_CTRL = 0;
    if (us) {
        TIMER_RELOAD = TIMER_VALUE = us * (CPU_HZ / 1000000) - 1;
        TIMER_CTRL = TIMER_CTRL_ENABLE;
    }
}

#endif

static volatile uint32_t ticks_ms;

/******************************************************************************/
// Lines

// The line in the hardware: Python has the line 0 in place of the UART's, so 1 to 31 are its own.
static unsigned in_hardware(unsigned line) {
    return line == UART_LINE ? 0 : line;
}

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

static void line_priority(unsigned line, uint32_t priority) {
    unsigned shift = line % 4 * 8;
    NVIC_IPR(line) = (NVIC_IPR(line) & ~(0xffu << shift)) | priority << shift;
}

void chip_line_on(unsigned line) {
    line_on(in_hardware(line));
}

void chip_line_off(unsigned line) {
    line_off(in_hardware(line));
}

void chip_line_pend(unsigned line) {
    line_pend(in_hardware(line));
}

void chip_line_priority(unsigned line, unsigned priority) {
    line_priority(in_hardware(line), priority);
}

static void python_handler(void) {
    hwirq_event = true;
    uint32_t exception;
    __asm volatile ("mrs %0, ipsr" : "=r" (exception));
    unsigned line = exception - N_SYSTEM;
    if (line == TIMER_LINE) {
        timer_interrupt_clear();
    }
    hwirq_line(line ? line : UART_LINE);
}

/******************************************************************************/
// Clock and stdin

// No WFI: when QEMU counts instructions (-icount) with nothing to run, the timers of these boards
// skip every second interrupt.
void chip_idle(void) {
}

static void systick_handler(void) {
    hwirq_event = true;
    if (hwirq_soft_timers_due(++ticks_ms)) {
        SCB_ICSR = SCB_ICSR_PENDSVSET;
    }
}

static void pendsv_handler(void) {
    hwirq_event = true;
    soft_timer_handler();
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
    return ms * 1000 + (CPU_HZ / 1000 - 1 - left) / (CPU_HZ / 1000000);
}

void chip_set_ticks(uint32_t ms) {
    ticks_ms = ms;
}

static void uart_handler(void) {
    hwirq_event = true;
    uart_interrupt_clear();
    if (!hwirq_stdin()) {
        line_off(UART_LINE);
    }
}

void chip_stdin(void) {
    line_on(UART_LINE);
}

/******************************************************************************/
// Start

void Reset_Handler(void);
void HardFault_Handler(void);

static void start(void) {
    #if __ARM_FP
    // It is off after a reset, and code that is compiled for it may use its registers anywhere.
    FPU_CPACR |= 0xf << 20; // full access to the coprocessors 10 and 11
    __asm volatile ("dsb\nisb");
    #endif
    Reset_Handler();
}

// It is linked ahead of the port's own table, as this file is linked ahead of the port's files, and
// so is the one that the CPU takes: an M0 has no register for another address.
extern uint32_t _estack;
typedef void (*vector_t)(void);
__attribute__((used, section(".isr_vector"))) static const vector_t vectors[N_SYSTEM + N_LINES] = {
    (vector_t)&_estack, start, [2 ... 6] = HardFault_Handler,
    [14] = pendsv_handler, systick_handler,
    [N_SYSTEM ... N_SYSTEM + N_LINES - 1] = python_handler,
    [N_SYSTEM + UART_LINE] = uart_handler,
};

void chip_init(void) {
    SCB_SHPR3 = (uint32_t)PRIO_SYSTICK << 24 | PRIO_PENDSV << 16;
    SYST_RVR = CPU_HZ / 1000 - 1;
    SYST_CSR = SYST_CSR_ON;
    line_priority(UART_LINE, PRIO_UART);
    uart_interrupt_on();
    line_on(UART_LINE);
    line_pend(UART_LINE); // for what came earlier
}
