# The port's VIRT_RV32, for GCC 12 as Debian has it: that has libraries for rv32imac, and links those
# of RV64 for the port's rv32imac_zicsr. The ISA of version 2.2 has the CSR instructions in it.
include boards/VIRT_RV32/mpconfigboard.mk
RV32_ARCH = rv32imac
AFLAGS += -misa-spec=2.2
LDFLAGS += -misa-spec=2.2
