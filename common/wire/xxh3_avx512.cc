#if defined(__x86_64__)
#define KERNEL kXxh3Avx512
#define KERNEL_NAME "avx512"
#include "common/wire/xxh3.inc"
#endif
