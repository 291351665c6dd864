/* node_serve.c - `hindmost node serve`: the ledger's /metrics until SIGINT or SIGTERM. */
#include "cli.h"
#include "hindmost/node.h"
#include "node_actions.h"

#include <signal.h>
#include <stdio.h>

enum { O_LEDGER = 1, O_LISTEN, O_CERTIFICATE, O_KEY };

static const struct option_spec specs[] = {{"ledger", 'l', true, O_LEDGER},
                                           {"listen", 0, true, O_LISTEN},
                                           {"tls-certificate", 0, true, O_CERTIFICATE},
                                           {"tls-key", 0, true, O_KEY},
                                           {NULL, 0, false, 0}};

int node_serve(int argc, char **argv) {
    struct options o;
    struct hm_serve_options serve = {0};
    struct hm_error err = {0};
    options_begin(&o, command_named("node"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        const char **const texts[] = {[O_LEDGER] = &serve.ledger,
                                      [O_LISTEN] = &serve.listen,
                                      [O_CERTIFICATE] = &serve.certificate,
                                      [O_KEY] = &serve.key};
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return EXIT_DONE;
        *texts[id] = o.value;
    }
    if (o.inputs) return complain_text("node serve takes no node; see 'hindmost help node'");
    serve.ledger = node_ledger_path(serve.ledger);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* the server's thread inherits it: they arrive here only */
    struct hm_server *server = hm_serve(&serve, &err);
    if (!server) return complain(&err);
    printf("serving /metrics of %s on port %d\n", serve.ledger, hm_serve_port(server));
    fflush(stdout);
    int which;
    sigwait(&signals, &which);
    hm_serve_stop(server);
    return EXIT_DONE;
}
