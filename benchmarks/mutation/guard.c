/* Memory for screening, preloaded: each block of posix_memalign, where torch's CPU tensors lie, ends right before a
   page that nobody may touch, starts after another, and is full of 0xff (NaN as a float) when it is handed out. So a
   read or write beyond the end is a SIGSEGV, one before the start meets NaN or the page, and what was never written
   is NaN. A freed block can never be touched again. Blocks whose size is no multiple of the alignment leave less than
   one alignment unguarded at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define ARENA (1UL << 38)

static _Atomic uintptr_t arena_start;
static _Atomic uintptr_t next_block;
static uint32_t *pages_of; /* by page of the arena: pages of the block that begins there */

static uintptr_t arena(void) {
    uintptr_t start = atomic_load(&arena_start);
    if (start == 0) {
        void *made = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made == MAP_FAILED) return 0;
        void *table = mmap(NULL, ARENA / PAGE * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (table == MAP_FAILED) return 0;
        pages_of = table; /* the first allocation comes from the one thread that loads torch */
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&arena_start, &none, (uintptr_t)made))
            atomic_store(&next_block, (uintptr_t)made);
        else
            munmap(made, ARENA);
        start = atomic_load(&arena_start);
    }
    return start;
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    uintptr_t start = arena();
    size_t rounded = (size + alignment - 1) / alignment * alignment;
    size_t body = (rounded + PAGE - 1) / PAGE * PAGE;
    if (start == 0 || body == 0 || alignment > PAGE) body = PAGE;
    /* one closed page, the body, one closed page */
    uintptr_t block = atomic_fetch_add(&next_block, body + 2 * PAGE);
    if (start == 0 || block + body + 2 * PAGE > start + ARENA) return ENOMEM;
    if (mprotect((void *)(block + PAGE), body, PROT_READ | PROT_WRITE) != 0) return ENOMEM;
    memset((void *)(block + PAGE), 0xff, body);
    pages_of[(block + PAGE - start) / PAGE] = (uint32_t)(body / PAGE);
    *out = (void *)(block + PAGE + body - (rounded ? rounded : alignment));
    return 0;
}

void free(void *pointer) {
    static void (*real)(void *);
    uintptr_t start = atomic_load(&arena_start), at = (uintptr_t)pointer;
    if (start != 0 && at >= start && at < start + ARENA) {
        uintptr_t page = at / PAGE * PAGE; /* the body's first: less than a page of it lies before the pointer */
        size_t body = (size_t)pages_of[(page - start) / PAGE] * PAGE;
        madvise((void *)page, body, MADV_DONTNEED);
        mprotect((void *)page, body, PROT_NONE);
        return;
    }
    if (!real) real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    real(pointer);
}
