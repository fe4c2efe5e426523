#if defined(__x86_64__)
#define KERNEL kXxh3Avx2
#define KERNEL_NAME "avx2"
#include "common/wire/xxh3.inc"
#endif
