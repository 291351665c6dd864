/* fix_late_data.c - the batch as early on the late replicas as on the others.
 *
 * Replays hold no waits for data, so the price is that of the step as it really is: T and the waits, over T. */
#include "fixes.h"

int hm_fix_late_data(struct hm_diagnoser *d) {
    const double T = d->a->replayed_s;
    if (!(d->late_data_s > 0)) return 0;
    hm_offer_from(
        d, "load-data-earlier", T + d->late_data_s, T,
        hm_box_text(
            d->box,
            "Have the batch ready where it came late: prefetch more, read ahead on more workers, or look at that "
            "host's "
            "storage. Wins back %.0f %% of the loss. Assumes that its data then come as early as its peers' do.",
            100 * d->late_data_s / d->lost_s));
    return 0;
}
