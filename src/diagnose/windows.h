/* windows.h - from when to when: windows of steps in which something stands out of a replica's levels.
 *
 * A replica's rows (stage x direction) less their weighted mean are its contrasts: what all rows share, its own pace and the work, is
 * gone from them. An effect says that some rows are higher in steps [first, end). The best window is taken, all sizes are fitted again
 * together, the weakest below its limit goes, until nothing stands out. */
#ifndef HM_WINDOWS_H
#define HM_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What of a replica is slow. */
enum { HM_ALL_STAGES = -1 };
enum hm_directions { HM_FORWARDS, HM_BACKWARDS, HM_BOTH };

struct hm_effect {
    uint32_t lane, first, end; /* in steps first .. end - 1 */
    int32_t stage;             /* HM_ALL_STAGES: one direction of the whole replica */
    enum hm_directions directions;
    double size[2]; /* forward, backward: in the logarithm */
};

/* The windows that are looked at in `steps` steps: all of them up to 64 steps, else lengths 1, 2, 4 ... at any place, and long ones on
 * a grid of 64 parts, whose edges are then refined. */
struct hm_window {
    uint32_t first, end;
};
struct hm_windows {
    size_t n;
    struct hm_window *at;
    uint32_t grid; /* steps from one grid point to the next; 1: all windows are there */
};
int hm_windows_list(struct hm_windows *w, size_t steps);
void hm_windows_free(struct hm_windows *w);
/* Moves the edges of a window by `grid`, grid / 2 .. 1 steps while that makes value() larger. */
struct hm_window hm_window_refine(struct hm_window at, size_t steps, uint32_t grid,
                                  double (*value)(const void *context, struct hm_window at), const void *context);

/* The least level over n of all steps that is worth a name: machines of one kind differ (spec; measured on public traces). */
double hm_least_level(size_t n, size_t steps);
extern const double hm_natural; /* levels this near their peers may be natural spread of machines */
extern const double hm_least;   /* the least level over the whole recording */

/* A search in the replicas of a job. Fields are the caller's, and do not change while it runs. */
struct hm_search {
    size_t stages, lanes, steps;
    const double *weight; /* [row] 0: no such row */
    const double *inflate1,
        *inflate2; /* [n] by how much more than white noise a mean over n steps varies, squared: of a row; of both
                                          rows of a stage, or of a replica */
    const struct hm_windows *windows;
    size_t most; /* effects of a replica */
};

/* Working memory of one thread. */
struct hm_search_room {
    double *left, *prefix, *added, *equation;
};
int hm_search_room(struct hm_search_room *room, const struct hm_search *s);
void hm_search_room_free(struct hm_search_room *room);

/* Looks for effects in one replica. value: [row][step] levels less the usual. Fills effect[most]; how many. */
size_t hm_search_lane(const struct hm_search *s, const double *value, uint32_t lane, struct hm_search_room *room,
                      struct hm_effect *effect);

/* Adds the effects to x[row][step]. */
void hm_effects_add(const struct hm_effect *effect, size_t n, size_t stages, size_t steps, double *x);
/* The mean size over the directions it touches. */
double hm_effect_size(const struct hm_effect *e);

#endif
