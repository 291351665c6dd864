/* command.c - runs another program: no shell, bounded time, bounded output. */
#include "node/scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { OUTPUT_LIMIT = 16 << 20 };

/* Reads until the end, or the deadline; false at the deadline. */
static bool collect(int fd, double deadline, struct hm_str *output) {
    char block[8192];
    for (;;) {
        double left = deadline - hm_now_s();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0) return false;
        if (poll(&p, 1, (int)(left * 1000) + 1) <= 0) continue;
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return true;
        if (output->length < OUTPUT_LIMIT) hm_str_bytes(output, block, (size_t)n);
    }
}

int hm_command(const char *const argv[], double timeout_s, struct hm_str *output, int *status, struct hm_error *err) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int pipes[2], code = 0, rc;
    pid_t child;
    if (pipe2(pipes, O_CLOEXEC) != 0) return hm_fail(err, HM_ERR_IO, "%s: %s", argv[0], strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
    if (!status) posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); /* so that its children end with it */
    rc = posix_spawnp(&child, argv[0], &actions, &attributes, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(pipes[1]);
    if (rc != 0) {
        close(pipes[0]);
        return hm_fail(err, HM_ERR_IO, "%s: %s; is it installed and in PATH?", argv[0], strerror(rc));
    }
    bool ended = collect(pipes[0], hm_now_s() + timeout_s, output);
    close(pipes[0]);
    if (!ended) kill(-child, SIGKILL);
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) {
    }
    if (!ended) return hm_fail(err, HM_ERR_IO, "%s: not done in %g s; it was stopped", argv[0], timeout_s);
    if (output->failed) return hm_fail_memory(err);
    if (!output->text) hm_str_bytes(output, "", 0);
    int exit_code = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    if (status)
        *status = exit_code;
    else if (exit_code != 0)
        return hm_fail(err, HM_ERR_IO, "%s %s: exit %d: %.*s", argv[0], argv[1] ? argv[1] : "", exit_code,
                       (int)strcspn(output->text ? output->text : "", "\n"), output->text ? output->text : "");
    return 0;
}
