/* no_sync.h - for tests that open thousands of ledgers: nothing waits for the disk.
 *
 * What these tests check (failed allocations, failed writes, killed processes) does not depend on it: what a process has written
 * survives the process. Only a power cut asks for more. SQLite takes these functions before libc's. Include it in one file of a program. */
#ifndef HM_TEST_NO_SYNC_H
#define HM_TEST_NO_SYNC_H

__attribute__((visibility("default"))) int fsync(int fd);
__attribute__((visibility("default"))) int fdatasync(int fd);

int fsync(int fd) {
    (void)fd;
    return 0;
}

int fdatasync(int fd) {
    (void)fd;
    return 0;
}

#endif
