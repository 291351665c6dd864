/* hindmost/timeline.h - a trace as a timeline that Perfetto and chrome://tracing open. */
#ifndef HINDMOST_TIMELINE_H
#define HINDMOST_TIMELINE_H

#include "hindmost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes Chrome JSON, gzipped if `path` ends in .gz. A process is a DP rank, a track a stream of one stage (compute, DP communication, the
 * four directions of transfers); steps follow each other with a gap, in ascending order. Every op is one complete event with the args
 * step, microbatch, chunk and seq (null where they do not apply; a transfer shows the microbatch it carries).
 *
 * ideal false: the recording. What a recording shows twice in one stream at a time is drawn one after the other. ideal true: the replay
 * in which every op takes its ideal duration, for the same steps and DP ranks.
 *
 * Memory: a few hundred bytes for each op of one replica's step, whatever the length of the trace. 0, or -1: HM_ERR_IO. */
HM_API int hm_timeline_write(const struct hm_trace *trace, bool ideal, const char *path, struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
