/* SPDX-License-Identifier: MIT */
/*
 * Walks the records of WAL held in memory: one segment, or several in a row.
 *
 * A segment is a row of pages, each with a header; records are 8-byte aligned and run across pages
 * and segments. What lies wholly in the given bytes is returned record by record. The record that
 * started before them (head) and the one that goes on behind them (tail) are kept by their bytes, so
 * that a consumer can join them. A record that a crash cut off is dropped where the page that
 * follows says so (overwritten continuation, 13.5 and 14.1 on).
 *
 * Every record's CRC is checked. Input is hostile: nothing is read outside the bytes, and memory is
 * bounded by their length.
 */
#ifndef FORMAT_WAL_READER_H
#define FORMAT_WAL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/wal_record.h"

#define WAL_PAGE_SHORT_HEADER_BYTES 24
#define WAL_PAGE_LONG_HEADER_BYTES  40
#define WAL_PAGE_BYTES_MIN          1024
#define WAL_PAGE_BYTES_MAX          65536

/* How much of a head or tail is kept; all block references of a record fit. */
#define WAL_EDGE_BYTES_MAX 65536

enum wal_page_flag {
    WAL_PAGE_CONTRECORD = 0x0001,
    WAL_PAGE_LONG_HEADER = 0x0002,
    WAL_PAGE_REMOVABLE = 0x0004,
    WAL_PAGE_OVERWRITE_CONTRECORD = 0x0008,
    WAL_PAGE_ALL_FLAGS = 0x000F,
};

struct wal_page_header {
    uint16_t magic;
    uint16_t flags; /* enum wal_page_flag */
    ph_tli tli;
    ph_lsn page_lsn;
    uint32_t rem_bytes; /* of the record that continues here */
    uint64_t sysid;     /* this and below: long header only, else 0 */
    uint32_t seg_bytes;
    uint32_t page_bytes;
};

/*
 * Decode a page's header; nothing is judged but lengths.
 *
 * bytes    at least WAL_PAGE_SHORT_HEADER_BYTES
 * Errors   CORRUPT: a long header in less than WAL_PAGE_LONG_HEADER_BYTES
 */
MUST_CHECK enum ph_rc wal_page_header_decode(const uint8_t *bytes, size_t len_bytes,
                                             struct wal_page_header *ret_head, struct ph_err *err);

/* How the bytes end. */
enum wal_end {
    WAL_END_NONE = 0, /* not reached yet */
    WAL_END_FULL,     /* the last record ends with the last byte (alignment aside) */
    WAL_END_CROSSING, /* a record continues behind the bytes: tail, or all of it one record's middle */
    WAL_END_SWITCH, /* segment switch; the rest is padding */
    WAL_END_ZEROS,  /* nothing but zeros behind the last record */
    WAL_END_TORN,   /* may_be_torn only: what follows is no record */
};

/* What the first page says of the record before. */
enum wal_head {
    WAL_HEAD_NONE = 0,    /* a record starts here, nothing is continued */
    WAL_HEAD_CONTINUED,   /* the end, or a middle part, of a record that started before */
    WAL_HEAD_OVERWRITTEN, /* the record before was cut off by a crash right here */
    WAL_HEAD_ABORTED,     /* its continuation starts here and is cut off further on */
};

struct wal_source {
    const uint8_t *bytes; /* borrowed until release; starts with a segment's first page */
    size_t len_bytes;     /* whole pages */
    unsigned major;       /* 0: any known */
    uint64_t sysid;       /* 0: any */
    ph_tli tli;           /* the name's; pages may carry older ones, none newer; 0: any */
    bool has_segno;       /* segno is to be checked */
    uint64_t segno;
    bool may_be_torn; /* a .partial segment: stop at what is no WAL instead of failing */
    bool skip_crc;
};

struct wal_edge {
    ph_lsn lsn; /* tail: the record's start; head: 0 */
    uint32_t
        total_bytes;     /* tail: the record's length; head: what is left of it at the first page */
    uint32_t here_bytes; /* of it, in these bytes */
    uint32_t stored_bytes; /* of those, kept: the first ones */
    uint8_t *bytes;        /* stored_bytes; owned; NULL where none */
};

struct wal_reader {
    /* Facts, valid after open. */
    const struct wal_version *version;
    uint64_t sysid;
    uint32_t seg_bytes;
    uint32_t page_bytes;
    ph_lsn start_lsn; /* of the first byte */
    ph_tli first_tli; /* of the first page */
    enum wal_head head_kind;
    struct wal_edge head;

    /* Grow while reading; final once end is not WAL_END_NONE. */
    ph_tli last_tli;
    ph_lsn last_lsn;        /* start of the last whole record, 0: none */
    ph_lsn end_lsn;         /* end of the last whole record; start_lsn: none */
    uint32_t aborted_count; /* records cut off by a crash inside the bytes */
    enum wal_end end;
    struct wal_edge tail; /* with WAL_END_CROSSING; stored_bytes 0: the head runs through */

    /* Private. */
    struct wal_source src;
    size_t pos;
    uint8_t *scratch;
    size_t scratch_bytes;
};

/*
 * Check the first page and step over what it continues.
 *
 * src      borrowed bytes; copied struct
 * ret_r    on success to be released with wal_reader_release(); on failure nothing is held
 * Errors   CORRUPT: no WAL, or damaged; REFUSED: sound, but of another version, cluster, timeline or
 *          place than src asks for. Texts give found and expected.
 * Threads  one at a time per reader
 */
MUST_CHECK enum ph_rc wal_reader_open(struct wal_reader *ret_r, const struct wal_source *src,
                                      struct ph_err *err);

/*
 * The next whole record. ret_rec borrows memory of the reader until the next call.
 *
 * ret_have  false at the end: r->end says how it ended
 * Errors    CORRUPT: bad page, bad CRC, broken chain, undecodable record; the text names the LSN
 */
MUST_CHECK enum ph_rc wal_reader_next(struct wal_reader *r, struct wal_record *ret_rec,
                                      bool *ret_have, struct ph_err *err);

void wal_reader_release(struct wal_reader *r);

#endif
