/* node_actions.h - the actions of `hindmost node`; argv[0] is the action's name. */
#ifndef HM_NODE_ACTIONS_H
#define HM_NODE_ACTIONS_H

int node_judge(int argc, char **argv);
int node_ledger(int argc, char **argv);
int node_lemons(int argc, char **argv);
int node_spares(int argc, char **argv);
int node_apply(int argc, char **argv);
int node_serve(int argc, char **argv);
int node_health(int argc, char **argv);

/* Which ledger: as given, $HINDMOST_LEDGER, or the usual place; and who acts. */
const char *node_ledger_path(const char *given);
const char *node_who(const char *given);
/* A hm_step_fn; context is a bool, whether it is a dry run. */
void node_print_step(void *context, const char *node, const char *step);

#endif
