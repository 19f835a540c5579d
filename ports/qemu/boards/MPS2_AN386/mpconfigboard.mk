# A Cortex-M4 with its FPU for single precision; else as the port's MPS2_AN385.
QEMU_ARCH = arm
QEMU_MACHINE = mps2-an386
LDSCRIPT = mcu/arm/mps2.ld
CFLAGS += -DQEMU_SOC_MPS2 -DMICROPY_HW_MCU_NAME='"Cortex-M4"'
CFLAGS += -mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16
MPY_CROSS_FLAGS += -march=armv7emsp
SRC_BOARD_O = shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
