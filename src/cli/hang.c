/* hang.c - `hindmost hang`: who did not come, from flight-recorder dumps. */
#include "cli.h"
#include "hindmost/hang.h"
#include "hindmost/hindmost.h"

#include <string.h>

enum { O_JSON = 1, O_CHECK };

static const struct option_spec specs[] = {
    {"json", 0, WRITES, O_JSON}, {"check", 0, false, O_CHECK}, {NULL, 0, false, 0}};

const char hang_help[] = "usage: hindmost hang DUMP... [options]\n\n"
                         "Who did not come: reads the dumps that PyTorch's flight recorder leaves of a job that stands "
                         "still, and names the ranks\n"
                         "that the others wait for, with reasons.\n\n"
                         "  DUMP                dumps, pickle or JSON (.gz too), one or several a rank, or folders of "
                         "them; the rank is the number\n"
                         "                      in the file's name (TORCH_FR_DUMP_TEMP_FILE + rank). A pickle is read "
                         "as data: nothing in it runs\n"
                         "      --json FILE     the verdict as JSON; - is standard output, without the text\n"
                         "      --check         exit status 2 if it hangs\n";

struct request {
    const char *json;
    bool check;
    int inputs;
};

static int parse(struct request *q, int argc, char **argv) {
    struct options o;
    options_begin(&o, command_named("hang"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return -1;
        if (id == O_JSON) q->json = o.value;
        if (id == O_CHECK) q->check = true;
    }
    q->inputs = o.inputs;
    if (o.inputs < 1) return complain_text("hang needs flight-recorder dumps; see 'hindmost help hang'");
    return EXIT_DONE;
}

static int write_json(const struct request *q, const struct hm_hang *hang) {
    struct hm_error err = {0};
    struct hm_out *out = hm_out_open(q->json, &err);
    if (!out) return complain(&err);
    hm_hang_write_json(hang, out);
    return hm_out_commit(out, &err) == 0 ? EXIT_DONE : complain(&err);
}

static int report(const struct request *q, const struct hm_hang *hang) {
    int status = q->json ? write_json(q, hang) : EXIT_DONE;
    if (status == EXIT_DONE && (!q->json || strcmp(q->json, "-") != 0)) {
        char *text = hm_hang_text(hang);
        status = text ? print_text(text) : complain_text("out of memory while writing the report");
        hm_text_free(text);
    }
    return status == EXIT_DONE && q->check && hang->hung ? EXIT_CRITICAL : status;
}

int hang_main(int argc, char **argv) {
    struct request q = {0};
    int status = parse(&q, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    struct hm_error err = {0};
    struct hm_hang *hang = hm_hang_read((const char *const *)argv + 1, (size_t)q.inputs, &err);
    status = hang ? report(&q, hang) : complain(&err);
    hm_hang_free(hang);
    return status;
}
