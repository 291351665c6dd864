/* fleet.h - what the fleet's files share: reading results, the table of jobs in DuckDB, sums. */
#ifndef HM_FLEET_H
#define HM_FLEET_H

#include "base/database.h"
#include "hindmost/report.h"

/* Jobs as they are read; their texts belong to them. */
struct hm_fleet_job_list {
    struct hm_fleet_job *job;
    size_t n, capacity;
};
struct hm_fleet_job *hm_fleet_job_add(struct hm_fleet_job_list *list,
                                      struct hm_error *err); /* a new one, all absent; NULL without memory */
void hm_fleet_job_release(struct hm_fleet_job *job);

/* Reads one result of `analyze --json`. 0; -1 with the error filled (HM_ERR_MEMORY: stop; else: skip that file). */
int hm_fleet_job_read_json(const char *path, struct hm_fleet_job *job, struct hm_error *err);
/* Appends the jobs of a Parquet file that hm_fleet_write_parquet made. */
int hm_fleet_read_parquet(const char *path, struct hm_fleet_job_list *list, struct hm_error *err);

/* Opens a database with the table. Close it in any case. */
int hm_jobs_open(struct hm_database *d, const struct hm_database_options *options, const struct hm_fleet *fleet,
                 struct hm_error *err);
/* Runs a statement; its first line of complaint becomes the error, behind `where`. result may be NULL. */
int hm_jobs_run(struct hm_database *d, const char *sql, duckdb_result *result, enum hm_error_code code,
                const char *where, struct hm_error *err);

/* Fills everything of *fleet after `skipped` from its jobs. by_slowdown and by_waste are the caller's arrays. */
void hm_fleet_sum(struct hm_fleet *fleet, size_t *by_slowdown, size_t *by_waste, double *scratch);

/* The fields of a job, one row each: the columns of the table. */
enum hm_field_kind { HM_FIELD_TEXT, HM_FIELD_COUNT, HM_FIELD_NUMBER };
struct hm_fleet_job_field {
    const char *name;
    enum hm_field_kind kind;
    size_t offset;
};
enum { HM_JOB_FIELDS = 28 };
extern const struct hm_fleet_job_field hm_fleet_job_fields[HM_JOB_FIELDS];

static inline const char **hm_fleet_job_text(struct hm_fleet_job *job, const struct hm_fleet_job_field *f) {
    return (const char **)(void *)((char *)job + f->offset);
}
static inline int64_t *hm_fleet_job_count(struct hm_fleet_job *job, const struct hm_fleet_job_field *f) {
    return (int64_t *)(void *)((char *)job + f->offset);
}
static inline double *hm_fleet_job_number(struct hm_fleet_job *job, const struct hm_fleet_job_field *f) {
    return (double *)(void *)((char *)job + f->offset);
}

#endif
