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
    int depth, surplus; /* surplus: ")" without a "(" */
    const char *wrong;  /* first thing that was wrong */
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

/* label["rule"], after the name; its value, or the values that it stored. */
static double label(struct parser *p, const double **values, size_t *n) {
    char name[64];
    size_t length = 0;
    if (!sign(p, "[")) return wrong(p, "'[' expected after the argument");
    skip(p);
    char quote = *p->at;
    if (quote != '"' && quote != '\'') return wrong(p, "a quoted rule name expected");
    for (p->at++; *p->at && *p->at != quote && length + 1 < sizeof name;) name[length++] = *p->at++;
    name[length] = 0;
    if (*p->at != quote) return wrong(p, "the rule name does not end");
    p->at++;
    double value = 0;
    if (!sign(p, "]")) return wrong(p, "']' expected");
    if (!p->label || !p->label(p->context, name, &value, values, n))
        return wrong(p, "no rule of that name stands before this one");
    return value;
}

/* min(label["rule"].values()), or of numbers: min(a, b). */
static double over_values(struct parser *p, const char *function) {
    const double *values = NULL;
    double first = NAN, result = NAN;
    size_t n = 0, count = 0;
    if (!sign(p, "(")) return wrong(p, "'(' expected after min, max, sum or len");
    const char *before = p->at;
    if (word(p, p->name) && *p->at == '[') {
        first = label(p, &values, &n);
        skip(p);
        if (!p->wrong && (!sign(p, ".") || !word(p, "values") || !sign(p, "(") || !sign(p, ")"))) {
            if (*function == 'l' || *function == 's') return wrong(p, ".values() expected");
            p->at = before;
        } else if (!p->wrong && !sign(p, ")")) {
            return wrong(p, "')' expected");
        }
    }
    if (p->wrong) return NAN;
    if (p->at == before) { /* of numbers */
        do {
            double v = expression(p);
            result = count++ == 0                               ? v
                     : *function == 's'                         ? result + v
                     : (*function == 'm' && function[1] == 'i') ? fmin(result, v)
                                                                : fmax(result, v);
        } while (!p->wrong && sign(p, ","));
        return sign(p, ")") ? result : wrong(p, "')' expected");
    }
    (void)first;
    for (size_t i = 0; i < n; i++) { /* of what was measured: a missing one is another rule's concern */
        if (isnan(values[i])) continue;
        double v = values[i];
        result = count++ == 0         ? v
                 : *function == 's'   ? result + v
                 : function[1] == 'i' ? fmin(result, v)
                                      : fmax(result, v);
    }
    return *function == 'l' ? (double)count : result;
}

static double sum(struct parser *p);

/* bool(...). SuperBench's documentation prints bool(min(...)))<1), with a bracket too many: the comparison is meant inside. */
static double truth(struct parser *p) {
    if (!sign(p, "(")) return wrong(p, "'(' expected after bool");
    double v = expression(p);
    if (!sign(p, ")")) return wrong(p, "')' expected");
    for (; p->surplus > 0 && !p->wrong; p->surplus--) {
        bool less = sign(p, "<"), more = !less && sign(p, ">"), equal = (less || more) && sign(p, "=");
        if (!less && !more) break;
        double right = sum(p);
        v = less ? (equal ? v <= right : v < right) : (equal ? v >= right : v > right);
        if (!sign(p, ")")) return wrong(p, "')' expected");
    }
    return isnan(v) ? NAN : v != 0;
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
    if (word(p, "bool")) return truth(p);
    static const char *const functions[] = {"min", "max", "sum", "len"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (word(p, functions[i])) return over_values(p, functions[i]);
    if (word(p, p->name)) {
        const double *values = NULL;
        size_t n = 0;
        skip(p);
        return *p->at == '[' ? label(p, &values, &n) : p->x;
    }
    if (isdigit((unsigned char)*p->at) || *p->at == '.') {
        char *end;
        double v = strtod(p->at, &end);
        if (end != p->at) {
            p->at = end;
            return v;
        }
    }
    return wrong(p, "a number, the argument, abs(), bool(), min(), True, False or '(' expected");
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
    bool any = false, all = true, undecided = false;
    while (!p->wrong) {
        static const char *const operators[] = {"<=", ">=", "==", "!=", "<", ">"};
        size_t k = 0;
        while (k < 6 && !sign(p, operators[k])) k++;
        if (k == 6) break;
        double right = sum(p);
        if (isnan(left) || isnan(right)) undecided = true; /* of what was not measured nothing is said */
        const bool holds[] = {left <= right, left >= right, left == right, left != right, left<right, left> right};
        all = all && holds[k];
        any = true;
        left = right;
    }
    return undecided ? NAN : any ? all : left;
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
    for (const char *c = text; *c; c++) p.surplus += *c == ')' ? 1 : *c == '(' ? -1 : 0;
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
