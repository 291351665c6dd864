/* node_actions.h - the actions of `hindmost node`; argv[0] is the action's name. */
#ifndef HM_NODE_ACTIONS_H
#define HM_NODE_ACTIONS_H

int node_judge(int argc, char **argv);

#endif
