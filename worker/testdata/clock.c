// A preloaded library that shifts the wall clock of a process by CLOCK_SHIFT_SECONDS and leaves the monotonic one alone.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
	const char *s = getenv("CLOCK_SHIFT_SECONDS");
	return s ? atol(s) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
	int r = syscall(SYS_clock_gettime, clock, t);
	if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) t->tv_sec += shift();
	return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	(void)zone;
	struct timespec t;
	int r = clock_gettime(CLOCK_REALTIME, &t);
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return r;
}

time_t time(time_t *at) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (at) *at = t.tv_sec;
	return t.tv_sec;
}
