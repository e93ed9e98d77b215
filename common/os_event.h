/*
 * A descriptor that becomes readable when something happened: for programs that wait in poll or
 * epoll.
 *
 * Threads: any thread may raise and clear.
 */
#ifndef LDR_COMMON_OS_EVENT_H
#define LDR_COMMON_OS_EVENT_H

/* 0 or an errno value. Close it with ldr_os_close. */
int ldr_os_event_open(int *out_fd);
/* Readable from now on; raising twice is raising once. */
void ldr_os_event_raise(int fd);
/* Not readable any more. */
void ldr_os_event_clear(int fd);

#endif
