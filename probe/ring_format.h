/* ring_format.h - the bytes of a ring, shared by its writer (probe.c) and the reader (src/trace/ring.c). docs/ring.md is the
 * specification, byte by byte; what stands here must say the same, and the assertions below hold it to the offsets.
 *
 * All numbers are little-endian. A ring is a header page, a table of names, and a power of two of 64-byte records. */
#ifndef HM_RING_FORMAT_H
#define HM_RING_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* As in PNG: a first byte that no text has, and a newline that a transfer as text would change. */
#define HM_RING_MAGIC "\x89HMRING\n"

enum {
    HM_RING_VERSION = 1,
    HM_RING_PAGE = 4096,        /* the fixed part of the header */
    HM_RING_NAMES_AT = 4096,    /* the table of names begins behind it */
    HM_RING_HEADER = 64 * 1024, /* header and names, as this version writes them */
    HM_RING_RECORD = 64,
    HM_RING_PAIRS = 64, /* pairs of clocks kept, besides the first */
    HM_RING_LEAST = 64, /* records */
    HM_RING_MOST = 1 << 24
};

/* Flags of a ring. */
enum { HM_RING_CLOSED = 1, HM_RING_FORKED = 2 };

struct hm_ring_pair {
    int64_t monotonic_ns, wall_ns;
};

struct hm_ring_header {
    uint8_t magic[8];  /* written last: without it the header is not finished */
    uint32_t version;  /* readers refuse what is newer than they are */
    uint32_t header;   /* bytes before the first record */
    uint32_t record;   /* bytes of a record */
    uint32_t capacity; /* records, a power of two */
    uint64_t claimed;  /* records begun since the ring was opened; the next one's number */
    uint64_t lost;     /* records not written: their slot was still being written one lap later */
    int32_t rank, world;
    int32_t local_rank;
    uint32_t flags;
    uint32_t pid, parent;
    uint64_t pid_start; /* field 22 of /proc/PID/stat: tells a process from a later one with the same number */
    uint8_t boot_id[16];
    int32_t dp, pp, tp, cp, ep; /* the rank's indices; -1: not known */
    uint32_t names;             /* bytes used in the table of names */
    uint32_t unnamed;           /* names that found no room there */
    uint32_t pairs;             /* pairs of clocks taken after the first; pair i stands at i % HM_RING_PAIRS */
    struct hm_ring_pair first;
    char job[64], host[64], gpu[64], face[16];
    struct hm_ring_pair pair[HM_RING_PAIRS];
};

/* An entry of the table of names; the text follows, ends in NUL and is padded with NUL to a multiple of 8 bytes. Ids count
 * entries from 1. A group's text is its name, NUL, and its members: "0-7", "0-56:8" (first-last:stride), joined by commas. */
struct hm_ring_name {
    uint16_t bytes; /* of the whole entry */
    uint8_t kind;   /* 1: name, 2: group */
    uint8_t zero;
    uint32_t reserved;
};
enum { HM_RING_NAME = 1, HM_RING_GROUP = 2 };

/* `state` of record number n: 2n + 2 whole, 2n + 1 being written; 0 never written. */
struct hm_ring_record {
    uint64_t state;
    int64_t begin_ns, end_ns, launch_ns;
    uint64_t amount;
    int32_t step, peer;
    uint32_t seq;
    uint16_t name, group;
    uint8_t kind, flags;
    uint16_t stream;
    int16_t microbatch, chunk;
};

#define HM_RING_AT(type, field, at) _Static_assert(offsetof(struct type, field) == (at), #field)
HM_RING_AT(hm_ring_header, version, 8);
HM_RING_AT(hm_ring_header, capacity, 20);
HM_RING_AT(hm_ring_header, claimed, 24);
HM_RING_AT(hm_ring_header, lost, 32);
HM_RING_AT(hm_ring_header, rank, 40);
HM_RING_AT(hm_ring_header, flags, 52);
HM_RING_AT(hm_ring_header, pid, 56);
HM_RING_AT(hm_ring_header, pid_start, 64);
HM_RING_AT(hm_ring_header, boot_id, 72);
HM_RING_AT(hm_ring_header, dp, 88);
HM_RING_AT(hm_ring_header, names, 108);
HM_RING_AT(hm_ring_header, unnamed, 112);
HM_RING_AT(hm_ring_header, pairs, 116);
HM_RING_AT(hm_ring_header, first, 120);
HM_RING_AT(hm_ring_header, job, 136);
HM_RING_AT(hm_ring_header, host, 200);
HM_RING_AT(hm_ring_header, gpu, 264);
HM_RING_AT(hm_ring_header, face, 328);
HM_RING_AT(hm_ring_header, pair, 344);
_Static_assert(sizeof(struct hm_ring_header) <= HM_RING_PAGE, "the header is one page");
_Static_assert(sizeof(struct hm_ring_name) == 8, "entries are multiples of 8 bytes");
HM_RING_AT(hm_ring_record, begin_ns, 8);
HM_RING_AT(hm_ring_record, launch_ns, 24);
HM_RING_AT(hm_ring_record, amount, 32);
HM_RING_AT(hm_ring_record, step, 40);
HM_RING_AT(hm_ring_record, peer, 44);
HM_RING_AT(hm_ring_record, seq, 48);
HM_RING_AT(hm_ring_record, name, 52);
HM_RING_AT(hm_ring_record, group, 54);
HM_RING_AT(hm_ring_record, kind, 56);
HM_RING_AT(hm_ring_record, flags, 57);
HM_RING_AT(hm_ring_record, stream, 58);
HM_RING_AT(hm_ring_record, microbatch, 60);
HM_RING_AT(hm_ring_record, chunk, 62);
_Static_assert(sizeof(struct hm_ring_record) == HM_RING_RECORD, "a record is 64 bytes");

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "rings are little-endian; this machine is not"
#endif

#endif
