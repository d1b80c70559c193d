/* The time of day of one process and of what it starts, moved by the nanoseconds that a file holds at that moment.

   Preloaded. Deadlines by the time of day are met as the kernel meets them when a clock is set: one that was an hour
   ahead when the clock went back an hour is two hours away.

   Invariant: nothing but the time of day moves; monotonic clocks and what waits by them go straight through.

   libfaketime does not serve: its clock_nanosleep (0.9.10) takes the moved time from monotonic deadlines too, and the
   sleep of Python 3.11 ends with EINVAL. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) \
    ({ static __typeof__(&name) found; if (!found) found = (__typeof__(&name))dlsym(RTLD_NEXT, #name); found; })
#define SECOND 1000000000LL
/* A wait looks at the clock again after that. */
#define LOOK (SECOND / 10)

static const volatile int64_t *moved;

__attribute__((constructor)) static void find_file(void) {
    const char *name = getenv("CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
    moved = page == MAP_FAILED ? NULL : page;
    close(file);
}

static int64_t nanoseconds(const struct timespec *of) { return of->tv_sec * SECOND + of->tv_nsec; }

static struct timespec spelled(int64_t all) { return (struct timespec){all / SECOND, all % SECOND}; }

int clock_gettime(clockid_t clock, struct timespec *out) {
    int failed = REAL(clock_gettime)(clock, out);
    if (!failed && moved && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *out = spelled(nanoseconds(out) + *moved);
    return failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *out, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, out) ? base : 0;
}

static int64_t left(const struct timespec *deadline) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return nanoseconds(deadline) - nanoseconds(&now);
}

/* On the monotonic clock: when to look again. */
static struct timespec next_look(const struct timespec *deadline) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t wait = left(deadline);
    return spelled(nanoseconds(&now) + (wait < 0 ? 0 : wait < LOOK ? wait : LOOK));
}

/* POSIX lets a condition wake its waiters for nothing, and they look again by themselves. */
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *deadline) {
    if (clock != CLOCK_REALTIME)
        return REAL(pthread_cond_clockwait)(condition, mutex, clock, deadline);
    struct timespec look = next_look(deadline);
    int ended = REAL(pthread_cond_clockwait)(condition, mutex, CLOCK_MONOTONIC, &look);
    return ended == ETIMEDOUT && left(deadline) > 0 ? 0 : ended;
}

/* glibc, nptl/pthread_cond_common.c: this bit of __wrefs says that the condition's clock is the monotonic one. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline) {
    int is_monotonic = condition->__data.__wrefs & 2;
    return pthread_cond_clockwait(condition, mutex, is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, deadline);
}

/* librdkafka waits by this one; glibc's calls its own wait from within. */
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *deadline) {
    int ended = pthread_cond_clockwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, CLOCK_REALTIME, deadline);
    return ended == 0 ? thrd_success : ended == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline) {
    if (clock != CLOCK_REALTIME)
        return REAL(sem_clockwait)(semaphore, clock, deadline);
    for (;;) {
        struct timespec look = next_look(deadline);
        int failed = REAL(sem_clockwait)(semaphore, CLOCK_MONOTONIC, &look);
        if (!failed || errno != ETIMEDOUT || left(deadline) <= 0)
            return failed;
    }
}

int sem_timedwait(sem_t *semaphore, const struct timespec *deadline) {
    return sem_clockwait(semaphore, CLOCK_REALTIME, deadline);
}
