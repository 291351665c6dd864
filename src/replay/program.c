/* program.c - compiles a job: registers by linear scan, one code per round. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

struct value {                    /* the end of one slot */
    uint32_t defined, last_round; /* rounds; last_round: of the last use */
    uint32_t last_node;           /* execution index of the last use within last_round */
    int32_t reg;                  /* while live in the round being compiled; -1: none */
};

struct compiler {
    const struct hm_job *m;
    struct hm_program *p;
    struct value *value; /* [slot] */
    uint32_t *carry;     /* values carried into the round being compiled */
    size_t n_carry;
    uint32_t *free_reg;
    size_t n_free, next_reg;
    bool failed;
};

static void emit(struct compiler *c, struct hm_round *r, uint32_t word) {
    uint32_t *grown = hm_grow(r->code, r->words, &r->capacity, sizeof *grown);
    if (!grown) {
        c->failed = true;
        return;
    }
    r->code = grown;
    r->code[r->words++] = word;
}

static uint32_t defined_in(const struct hm_node *node) {
    return node->round + (node->across >= 0 ? 1 : 0);
}

static void find_lifetimes(struct compiler *c) {
    const struct hm_job *m = c->m;
    for (size_t i = 0; i < m->n_slots; i++) {
        uint32_t defined = defined_in(&m->node[m->slot[i].node]);
        c->value[i] = (struct value){defined, defined, UINT32_MAX, -1};
        c->value[i].last_node = 0; /* dead at once unless somebody waits for it */
    }
    for (size_t i = 0; i < m->n_slots; i++) {
        uint32_t round = m->node[m->slot[i].node].round, node = m->slot[i].node;
        for (uint32_t d = 0; d < m->slot[i].n_deps; d++) {
            struct value *v = &c->value[m->dep[m->slot[i].first_dep + d]];
            if (round > v->last_round || (round == v->last_round && node >= v->last_node)) {
                v->last_round = round;
                v->last_node = node;
            }
        }
    }
}

static uint32_t take_register(struct compiler *c) {
    if (c->n_free) return c->free_reg[--c->n_free];
    return (uint32_t)c->next_reg++;
}

static void release(struct compiler *c, uint32_t slot) {
    c->free_reg[c->n_free++] = (uint32_t)c->value[slot].reg;
    c->value[slot].reg = -1;
}

/* The distinct slots a node waits for. */
static size_t node_deps(const struct hm_job *m, const struct hm_node *node, uint32_t *deps) {
    size_t n = 0;
    for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++)
        for (uint32_t d = 0; d < m->slot[i].n_deps; d++) {
            uint32_t dep = m->dep[m->slot[i].first_dep + d];
            size_t k = 0;
            while (k < n && deps[k] != dep) k++;
            if (k == n) deps[n++] = dep;
        }
    return n;
}

static void emit_registers(struct compiler *c, struct hm_round *r, const uint32_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++) emit(c, r, (uint32_t)c->value[slots[i]].reg);
}

/* Sets registers for the node's members, and lets go at once of those nobody waits for. */
static void define_members(struct compiler *c, struct hm_round *r, const struct hm_node *node, uint32_t round) {
    for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++) {
        c->value[i].reg = (int32_t)take_register(c);
        emit(c, r, (uint32_t)c->value[i].reg);
    }
    for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++) {
        if (hm_class_of(c->m, i)->ends_step) {
            emit(c, r, HM_OP_STEP_END);
            emit(c, r, (uint32_t)c->value[i].reg);
        }
        if (c->value[i].last_round == round && c->value[i].last_node == 0) release(c, i);
    }
    r->n_slots += node->n_slots;
}

/* Whether a slot's duration can be below 0: a transfer's, where clocks disagree. */
static bool may_be_negative(const struct hm_job *m, uint32_t slot) {
    const struct hm_node *node = &m->node[m->slot[slot].node];
    return node->across >= 0 || node->n_slots > 1 || m->slot[slot].lonely;
}

/* A step begins where its earliest op begins. Ops that wait for nothing begin at 0; one that waits for a compute begins no earlier than
 * that compute. What is left, an op that waits for transfers only, may begin before all others. Reads the registers waited for. */
static void note_early_starts(struct compiler *c, struct hm_round *r, const struct hm_node *node) {
    const struct hm_job *m = c->m;
    for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++) {
        const struct hm_slot *slot = &m->slot[i];
        bool may = slot->n_deps > 0;
        for (uint32_t d = 0; d < slot->n_deps && may; d++) may = may_be_negative(m, m->dep[slot->first_dep + d]);
        if (!may) continue;
        emit(c, r, HM_OP_EARLY);
        emit(c, r, slot->n_deps);
        emit_registers(c, r, m->dep + slot->first_dep, slot->n_deps);
    }
}

static void compile_node(struct compiler *c, struct hm_round *r, uint32_t k, uint32_t *deps) {
    const struct hm_node *node = &c->m->node[k];
    size_t n = node_deps(c->m, node, deps);
    note_early_starts(c, r, node);
    if (node->across >= 0) {
        emit(c, r, HM_OP_LAUNCH);
        emit(c, r, (uint32_t)node->across);
        emit(c, r, (uint32_t)n);
    } else if (node->n_slots == 1 && n <= 4) {
        emit(c, r, HM_OP_RUN1_0 + (uint32_t)n);
    } else if (node->n_slots == 2 && n >= 2 && n <= 5) {
        emit(c, r, HM_OP_RUN2_2 + (uint32_t)n - 2);
    } else {
        emit(c, r, HM_OP_RUN_N);
        emit(c, r, (uint32_t)n);
        emit(c, r, node->n_slots);
    }
    emit_registers(c, r, deps, n);
    for (size_t i = 0; i < n; i++)
        if (c->value[deps[i]].last_round == node->round && c->value[deps[i]].last_node == k) release(c, deps[i]);
    if (node->across < 0) define_members(c, r, node, node->round);
}

static void compile_round(struct compiler *c, uint32_t round, uint32_t *deps) {
    const struct hm_job *m = c->m;
    struct hm_round *r = &c->p->round[round];
    c->n_free = 0;
    c->next_reg = c->n_carry;
    r->n_in = (uint32_t)c->n_carry;
    r->first_slot = round ? c->p->round[round - 1].first_slot + c->p->round[round - 1].n_slots : 0;
    for (size_t i = 0; i < c->n_carry; i++) c->value[c->carry[i]].reg = (int32_t)i;
    for (size_t k = 0; k < m->n_nodes; k++)
        if (m->node[k].across >= 0 && m->node[k].round + 1 == round) {
            emit(c, r, HM_OP_LAND);
            emit(c, r, (uint32_t)m->node[k].across);
            emit(c, r, m->node[k].n_slots);
            define_members(c, r, &m->node[k], round);
        }
    for (uint32_t k = 0; k < m->n_nodes; k++)
        if (m->node[k].round == round) compile_node(c, r, k, deps);
    emit(c, r, HM_OP_END);
    c->n_carry = 0;
    for (uint32_t i = 0; i < m->n_slots; i++)
        if (c->value[i].defined <= round && c->value[i].last_round > round) {
            r->out[r->n_out++] = (uint32_t)c->value[i].reg;
            c->carry[c->n_carry++] = i;
        }
    if (c->next_reg > c->p->registers) c->p->registers = c->next_reg;
    if (r->n_out > c->p->carried) c->p->carried = r->n_out;
}

/* A group that waits for nothing starts with the step in every lane. */
static bool starts_with_step(const struct hm_job *m, const struct hm_node *node) {
    for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++)
        if (m->slot[i].n_deps) return false;
    return true;
}

static size_t count_free_rounds(const struct hm_job *m) {
    size_t rounds = m->rounds;
    for (size_t k = 0; k < m->n_nodes; k++)
        if (m->node[k].across >= 0 && !starts_with_step(m, &m->node[k]) && m->node[k].round + 1 < rounds)
            rounds = m->node[k].round + 1;
    return rounds;
}

struct hm_program *hm_program_compile(const struct hm_job *m, struct hm_error *err) {
    struct hm_program *p = hm_alloc(1, sizeof *p);
    struct compiler c = {.m = m, .p = p};
    uint32_t *deps = hm_alloc(m->n_deps + 1, sizeof *deps);
    c.value = hm_alloc(m->n_slots, sizeof *c.value);
    c.carry = hm_alloc(m->n_slots, sizeof *c.carry);
    c.free_reg = hm_alloc(2 * m->n_slots + m->n_deps + 1, sizeof *c.free_reg);
    if (p) {
        p->round = hm_alloc(m->rounds, sizeof *p->round);
        p->alone = hm_alloc(m->n_across, sizeof *p->alone);
        for (uint32_t k = 0; p->alone && k < m->n_across; k++) p->alone[k] = k;
    }
    c.failed =
        !p || !p->round || !p->alone || hm_ties_whole(&p->ties, m) != 0 || !deps || !c.value || !c.carry || !c.free_reg;
    if (!c.failed) {
        p->rounds = m->rounds;
        p->slots = m->n_slots;
        p->across = m->n_across;
        p->free_rounds = count_free_rounds(m);
        find_lifetimes(&c);
        for (uint32_t r = 0; r < m->rounds && !c.failed; r++) {
            c.failed = !(p->round[r].out = hm_alloc(m->n_slots, sizeof(uint32_t)));
            if (!c.failed) compile_round(&c, r, deps);
        }
    }
    hm_free(deps);
    hm_free(c.value);
    hm_free(c.carry);
    hm_free(c.free_reg);
    if (!c.failed) return p;
    hm_program_free(p);
    hm_fail_memory(err);
    return NULL;
}

void hm_program_free(struct hm_program *p) {
    if (!p) return;
    for (size_t r = 0; p->round && r < p->rounds; r++) {
        hm_free(p->round[r].code);
        hm_free(p->round[r].out);
    }
    hm_free(p->round);
    hm_free(p->alone);
    hm_ties_free(&p->ties);
    hm_free(p);
}
