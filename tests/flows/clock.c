/* Loaded before the C library: the clock is as many days off as the file of the variable CLOCK says. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *at) {
  int status = syscall(SYS_clock_gettime, id, at);
  FILE *file = status || id != CLOCK_REALTIME ? NULL : fopen(getenv("CLOCK"), "r");
  long days = 0;
  if (file && fscanf(file, "%ld", &days) == 1) at->tv_sec += 86400 * days;
  if (file) fclose(file);
  return status;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  int status = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return status;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
