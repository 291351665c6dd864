/* child.c - runs the single program on one trace and keeps the last thing it said. */
#include "many/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int hm_many_child_start(struct hm_many_child *child, const char *program, const char *trace, const char *result,
                        const char *const *options, size_t n) {
    int ends[2];
    const char **argv = calloc(n + 7, sizeof *argv);
    if (!argv) return ENOMEM;
    size_t k = 0;
    argv[k++] = program, argv[k++] = "analyze";
    for (size_t i = 0; i < n; i++) argv[k++] = options[i];
    argv[k++] = "--json", argv[k++] = result, argv[k++] = "--", argv[k++] = trace;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(argv);
        return errno;
    }
    posix_spawn_file_actions_t actions;
    int status = posix_spawn_file_actions_init(&actions);
    if (status == 0) {
        (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0); /* the report for people */
        (void)posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
        status = posix_spawn(&child->pid, program, &actions, NULL, (char *const *)argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    free(argv);
    close(ends[1]);
    if (status != 0) {
        close(ends[0]);
        child->pid = 0;
        return status;
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    child->errors = ends[0];
    child->length = 0;
    child->why[0] = 0;
    return 0;
}

/* Keeps the last whole line, without what every message of the program begins with. */
static void listen_to(struct hm_many_child *child) {
    char bytes[1024];
    for (ssize_t n; (n = read(child->errors, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] == '\n' || bytes[i] == '\r') {
                child->length = 0;
                continue;
            }
            if (child->length + 1 < sizeof child->why)
                child->why[child->length++] = bytes[i], child->why[child->length] = 0;
        }
}

bool hm_many_child_ended(struct hm_many_child *child, bool *good) {
    static const char prefix[] = "hindmost: ";
    int status = 0;
    listen_to(child);
    pid_t ended = waitpid(child->pid, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    listen_to(child);
    close(child->errors);
    child->pid = 0;
    *good = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended > 0 && WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        (void)snprintf(child->why, sizeof child->why, "the analysis was ended by signal %d (%s)%s", number,
                       strsignal(number),
                       number == SIGKILL ? ": perhaps memory ran out; give fewer ranks a host, or --memory" : "");
    } else if (!*good && !child->why[0]) {
        (void)snprintf(child->why, sizeof child->why, "the analysis failed with status %d and said nothing",
                       WEXITSTATUS(status));
    } else if (strncmp(child->why, prefix, sizeof prefix - 1) == 0) {
        memmove(child->why, child->why + sizeof prefix - 1, strlen(child->why) - (sizeof prefix - 1) + 1);
    }
    return true;
}

void hm_many_child_kill(struct hm_many_child *child) {
    if (child->pid <= 0) return;
    (void)kill(child->pid, SIGTERM); /* it takes its half-written result away */
    (void)waitpid(child->pid, NULL, 0);
    close(child->errors);
    child->pid = 0;
}
