/* Loaded before the C library (LD_PRELOAD), it makes a program wait for a disk of its own: fsync and fdatasync take
   PARKAZOO_DISK_WAIT_US microseconds and force nothing. bench/disk_wait.py compiles it. */

#include <stdlib.h>
#include <time.h>

static int wait_for_disk(void)
{
    const char *text = getenv("PARKAZOO_DISK_WAIT_US");
    long us = text ? atol(text) : 0;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left)) { /* a signal came */
    }
    return 0;
}

int fsync(int file)
{
    (void)file;
    return wait_for_disk();
}

int fdatasync(int file)
{
    (void)file;
    return wait_for_disk();
}
