// What hwirq.c needs of a chip, in cortex_m.c or virt.c, and what it has for it.

enum { N_LINES = 32, TIMER_LINE = 8 }; // Python uses the lines 1 to 31
enum { PRIO_PYTHON = 0x80 }; // of a line at first; a lower number goes first

void chip_init(void); // start the clock, and let stdin interrupt
void chip_idle(void); // sleep until there is an interrupt, where QEMU can; hwirq_event tells of one
void chip_line_on(unsigned line);
void chip_line_off(unsigned line);
void chip_line_pend(unsigned line);
void chip_line_priority(unsigned line, unsigned priority);
void chip_timer(uint32_t us); // raise TIMER_LINE every so often; 0: no more
void chip_set_ticks(uint32_t ms);
void chip_stdin(void); // let it interrupt again: there is room

extern volatile bool hwirq_event; // an interrupt has come: as the event register that ends a WFE
bool hwirq_soft_timers_due(uint32_t ms); // tell it once: then soft_timer_handler() is to be called
bool hwirq_stdin(void); // take what the UART has received; false: there is no room for more
void hwirq_line(unsigned line); // call the handler in Python
