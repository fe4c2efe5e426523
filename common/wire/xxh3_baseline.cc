#define KERNEL kXxh3Baseline
#define KERNEL_NAME "baseline"
#include "common/wire/xxh3.inc"
