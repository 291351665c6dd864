/* causes.c - the table of causes. A new one is one file and one row; rows are independent of each other. */
#include "diagnose.h"

const struct hm_cause_rule hm_cause_rules[] = {
    {"slow-worker", HM_PART_WORKERS, hm_recognise_workers},
    {"stage-imbalance", HM_PART_STAGES, hm_recognise_stages},
    {"sequence-length", HM_PART_SEQUENCES, hm_recognise_sequences},
    {"garbage-collection", HM_PART_SPIKES, hm_recognise_collections},
    {"slow-link", HM_PART_LINKS, hm_recognise_links},
    {"data-loading", HM_PART_LOADING, hm_recognise_loading},
    {"replica-imbalance", HM_PART_REPLICAS, hm_recognise_replicas},
    {NULL, 0, NULL},
};
