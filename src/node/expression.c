/* expression.c - evaluates the lambdas of SuperBench's rules: a recursive descent over Python's precedence, numbers only.
 * Rules come from files: nothing is ever executed, and the depth is bounded. */
#include "node/node.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_LIMIT = 100 };

struct parser {
    const char *at;
    char name[32]; /* of the lambda's argument */
    double x;
    hm_label_fn label;
    void *context;
    int depth;
    const char *wrong; /* first thing that was wrong */
};

static double expression(struct parser *p);

static void skip(struct parser *p) {
    while (isspace((unsigned char)*p->at)) p->at++;
}

static bool sign(struct parser *p, const char *text) {
    skip(p);
    size_t n = strlen(text);
    if (strncmp(p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

static bool word(struct parser *p, const char *text) {
    skip(p);
    size_t n = strlen(text);
    if (strncmp(p->at, text, n) != 0 || isalnum((unsigned char)p->at[n]) || p->at[n] == '_') return false;
    p->at += n;
    return true;
}

static double wrong(struct parser *p, const char *what) {
    if (!p->wrong) p->wrong = what;
    return NAN;
}

/* label["rule"], after the name. */
static double label(struct parser *p) {
    char name[64];
    size_t n = 0;
    if (!sign(p, "[")) return wrong(p, "'[' expected after the argument");
    skip(p);
    char quote = *p->at;
    if (quote != '"' && quote != '\'') return wrong(p, "a quoted rule name expected");
    for (p->at++; *p->at && *p->at != quote && n + 1 < sizeof name;) name[n++] = *p->at++;
    name[n] = 0;
    if (*p->at != quote) return wrong(p, "the rule name does not end");
    p->at++;
    double value = 0;
    if (!sign(p, "]")) return wrong(p, "']' expected");
    if (!p->label || !p->label(p->context, name, &value))
        return wrong(p, "no rule of that name stands before this one");
    return value;
}

static double atom(struct parser *p) {
    skip(p);
    if (sign(p, "(")) {
        double v = expression(p);
        return sign(p, ")") ? v : wrong(p, "')' expected");
    }
    if (word(p, "True")) return 1;
    if (word(p, "False")) return 0;
    if (word(p, "abs")) {
        if (!sign(p, "(")) return wrong(p, "'(' expected after abs");
        double v = expression(p);
        return sign(p, ")") ? fabs(v) : wrong(p, "')' expected");
    }
    if (word(p, p->name)) {
        skip(p);
        return *p->at == '[' ? label(p) : p->x;
    }
    if (isdigit((unsigned char)*p->at) || *p->at == '.') {
        char *end;
        double v = strtod(p->at, &end);
        if (end != p->at) {
            p->at = end;
            return v;
        }
    }
    return wrong(p, "a number, the argument, abs(), True, False or '(' expected");
}

static double unary(struct parser *p) {
    if (++p->depth > DEPTH_LIMIT) return wrong(p, "nested too deeply");
    double v;
    if (sign(p, "-"))
        v = -unary(p);
    else if (sign(p, "+"))
        v = unary(p);
    else
        v = atom(p);
    p->depth--;
    return v;
}

static double product(struct parser *p) {
    double v = unary(p);
    while (!p->wrong) {
        if (sign(p, "*"))
            v *= unary(p);
        else if (sign(p, "/"))
            v /= unary(p);
        else
            break;
    }
    return v;
}

static double sum(struct parser *p) {
    double v = product(p);
    while (!p->wrong) {
        if (sign(p, "+"))
            v += product(p);
        else if (sign(p, "-"))
            v -= product(p);
        else
            break;
    }
    return v;
}

/* Chains as Python does: a < b < c. */
static double comparison(struct parser *p) {
    double left = sum(p);
    bool any = false, truth = true;
    while (!p->wrong) {
        static const char *const operators[] = {"<=", ">=", "==", "!=", "<", ">"};
        size_t k = 0;
        while (k < 6 && !sign(p, operators[k])) k++;
        if (k == 6) break;
        double right = sum(p);
        const bool holds[] = {left <= right, left >= right, left == right, left != right, left<right, left> right};
        truth = truth && holds[k];
        any = true;
        left = right;
    }
    return any ? truth : left;
}

static double negation(struct parser *p) {
    if (!word(p, "not")) return comparison(p);
    if (++p->depth > DEPTH_LIMIT) return wrong(p, "nested too deeply");
    double v = negation(p) == 0;
    p->depth--;
    return v;
}

static double conjunction(struct parser *p) {
    double v = negation(p);
    while (!p->wrong && word(p, "and")) {
        double right = negation(p);
        v = v != 0 && right != 0;
    }
    return v;
}

static double disjunction(struct parser *p) {
    double v = conjunction(p);
    while (!p->wrong && word(p, "or")) {
        double right = conjunction(p);
        v = v != 0 || right != 0;
    }
    return v;
}

static double expression(struct parser *p) {
    if (++p->depth > DEPTH_LIMIT) return wrong(p, "nested too deeply");
    double v = disjunction(p);
    if (!p->wrong && word(p, "if")) {
        double condition = disjunction(p);
        if (!word(p, "else")) return wrong(p, "'else' expected");
        double other = expression(p);
        v = condition != 0 ? v : other;
    }
    p->depth--;
    return v;
}

int hm_expression(const char *text, double x, hm_label_fn label_of, void *context, double *result,
                  struct hm_error *err) {
    struct parser p = {.at = text, .x = x, .label = label_of, .context = context};
    size_t n = 0;
    if (!word(&p, "lambda")) wrong(&p, "it does not begin with 'lambda'");
    skip(&p);
    while ((isalnum((unsigned char)*p.at) || *p.at == '_') && n + 1 < sizeof p.name) p.name[n++] = *p.at++;
    if (!p.wrong && (n == 0 || !sign(&p, ":"))) wrong(&p, "'lambda NAME:' expected");
    *result = p.wrong ? NAN : expression(&p);
    skip(&p);
    if (!p.wrong && *p.at) wrong(&p, "something follows the expression");
    if (p.wrong) return hm_fail(err, HM_ERR_INPUT, "'%.100s': %s at '%.20s'", text, p.wrong, p.at);
    return 0;
}
