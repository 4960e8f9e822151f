/*
 * Collectives among processes that share one piece of memory.
 *
 * Work goes in rounds, counted without end over all operations. In a round a rank fills its own slot and
 * says "ready", reads what it needs of the others' slots and says "done". There are DEPTH slots for each
 * rank, so it may be DEPTH rounds ahead of who reads it. An all-reduce has a second slot, for the part
 * that the rank has reduced; two rounds later everybody has taken it, see allreduce_rounds.
 *
 * Whoever waits spins shortly, then sleeps on the other's counter (futex), and calls back to Python ten
 * times a second, where it is seen whether the others live, and where signals are handled.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "reduce.h"

enum { DEPTH = 4, MOST_RANKS = 64, ALIGN = 64 };
enum { OK = 0, STOPPED = 1, DISAGREE = 2 };
enum { LOOK_NS = 100 * 1000 * 1000 };
enum kind { ALLREDUCE = 1, REDUCESCATTER, ALLGATHER, BROADCAST, ALLTOALL, BARRIER };

/* One rank's: alone on its cache lines, and what others ask for first on the first of them. */
struct line {
  alignas(64) _Atomic uint32_t ready;
  _Atomic uint32_t sleepers;
  uint64_t what[DEPTH];
  alignas(64) _Atomic uint32_t done;
};

typedef int look(uint64_t waits_for);

struct team {
  struct line *lines;
  char *slots;
  size_t chunk, part, small;
  int64_t spin_ns;
  look *look;
  uint32_t round;
  int rank, size;
};

size_t aitne_line_bytes(void) { return sizeof(struct line); }
int aitne_depth(void) { return DEPTH; }

/* part: bytes of a second slot. small: up to so many bytes everybody reduces everything. NULL: no memory. */
struct team *aitne_open(char *lines, char *slots, int rank, int size, size_t chunk, size_t part,
                        size_t small, int64_t spin_ns, look *look) {
  struct team *team = malloc(sizeof *team);
  if (team)
    *team = (struct team){(struct line *)lines, slots, chunk, part, small, spin_ns, look, 0, rank, size};
  return team;
}

void aitne_close(struct team *team) { free(team); }

static char *slot(struct team *t, int rank, uint32_t round) {
  return t->slots + (size_t)rank * DEPTH * (t->chunk + t->part) + (round % DEPTH) * t->chunk;
}

static char *second_slot(struct team *t, int rank, uint32_t round) {
  return slot(t, rank, 0) + DEPTH * t->chunk + (round % DEPTH) * t->part;
}

static uint64_t others(struct team *t) {
  uint64_t all = t->size == MOST_RANKS ? ~0ull : (1ull << t->size) - 1;
  return all & ~(1ull << t->rank);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void pause_shortly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

typedef _Atomic uint32_t counter;

static counter *counter_of(struct team *t, int rank, int done) {
  return done ? &t->lines[rank].done : &t->lines[rank].ready;
}

/* Counters run over: the difference says who is ahead. */
static int behind(uint32_t value, uint32_t target) { return (int32_t)(value - target) < 0; }

static int reached(counter *word, uint32_t target) {
  return !behind(atomic_load_explicit(word, memory_order_acquire), target);
}

static int spin(struct team *t, counter *word, uint32_t target) {
  if (!t->spin_ns) {
    /* More ranks than processors: the one that is waited for may need this one. */
    sched_yield();
    return reached(word, target);
  }
  for (int64_t end = now_ns() + t->spin_ns; now_ns() < end;)
    for (int i = 0; i < 16; i++) {
      if (reached(word, target)) return 1;
      pause_shortly();
    }
  return 0;
}

static uint64_t still_behind(struct team *t, uint64_t whom, int done, uint32_t target) {
  uint64_t found = 0;
  for (int rank = 0; rank < t->size; rank++)
    if (whom >> rank & 1 && !reached(counter_of(t, rank, done), target)) found |= 1ull << rank;
  return found;
}

static int sleep_on(struct team *t, int rank, uint64_t whom, int done, uint32_t target) {
  counter *word = counter_of(t, rank, done);
  counter *sleepers = &t->lines[rank].sleepers;
  const struct timespec timeout = {0, LOOK_NS};
  for (;;) {
    /* First "I sleep", then a last look; announce() does it the other way round: one of the two sees. */
    atomic_fetch_add(sleepers, 1);
    uint32_t value = atomic_load(word);
    long failed = 0;
    if (behind(value, target)) failed = syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
    int why = failed ? errno : 0;
    atomic_fetch_sub(sleepers, 1);
    if (reached(word, target)) return OK;
    if ((why == ETIMEDOUT || why == EINTR) && t->look(still_behind(t, whom, done, target))) return STOPPED;
  }
}

/* Until all of whom have come to target. */
static int await(struct team *t, uint64_t whom, int done, uint32_t target) {
  for (int rank = 0; rank < t->size; rank++) {
    if (!(whom >> rank & 1)) continue;
    counter *word = counter_of(t, rank, done);
    if (reached(word, target) || spin(t, word, target)) continue;
    if (sleep_on(t, rank, whom, done, target)) return STOPPED;
  }
  return OK;
}

static void announce(struct team *t, int done, uint32_t value) {
  counter *word = counter_of(t, t->rank, done);
  atomic_store(word, value);
  if (atomic_load(&t->lines[t->rank].sleepers))
    syscall(SYS_futex, word, FUTEX_WAKE, MOST_RANKS, NULL, NULL, 0);
}

/* Until this round's own slot may be filled. */
static int begin(struct team *t, uint32_t round) { return await(t, others(t), 1, round + 1 - DEPTH); }

static void ready(struct team *t, uint32_t round, uint64_t what) {
  t->lines[t->rank].what[round % DEPTH] = what;
  announce(t, 0, round + 1);
}

/* The low 16 bits say which operation, the others how large. */
static uint64_t described(int kind, int dtype, int op, uint64_t size) {
  return size << 16 | (uint64_t)kind << 12 | (uint64_t)dtype << 4 | (uint64_t)op;
}

static int agree(struct team *t, uint32_t round, uint64_t whom, uint64_t what, uint64_t mask) {
  for (int rank = 0; rank < t->size; rank++)
    if (whom >> rank & 1 && (t->lines[rank].what[round % DEPTH] ^ what) & mask) return DISAGREE;
  return OK;
}

static int taken(struct team *t, uint32_t round, uint64_t whom, uint64_t what) {
  int failed = await(t, whom, 0, round + 1);
  return failed ? failed : agree(t, round, whom, what, ~0ull);
}

/* A tensor without elements has no address, which memcpy must not see. */
static void copy(char *to, const char *from, size_t bytes) {
  if (bytes) memcpy(to, from, bytes);
}

static uint64_t divided_up(uint64_t count, uint64_t by) { return (count + by - 1) / by; }
static size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

/* What of total lies in the piece of the given number. */
static size_t piece(uint64_t total, uint64_t number, size_t size) {
  uint64_t from = number * size;
  return from < total ? lesser(size, total - from) : 0;
}

/* Bytes of a slot that are for one rank, where each rank has its own. */
static size_t share(struct team *t) { return t->chunk / t->size / ALIGN * ALIGN; }

int aitne_barrier(struct team *t) {
  uint32_t round = t->round;
  uint64_t what = described(BARRIER, 0, 0, 0);
  if (begin(t, round)) return STOPPED;
  ready(t, round, what);
  int failed = taken(t, round, others(t), what);
  if (failed) return failed;
  announce(t, 1, round + 1);
  t->round = round + 1;
  return OK;
}

static int allreduce_at_once(struct team *t, char *data, size_t bytes, uint64_t count, int dtype, int op) {
  const void *rows[MOST_RANKS];
  uint32_t round = t->round;
  uint64_t what = described(ALLREDUCE, dtype, op, bytes);
  if (begin(t, round)) return STOPPED;
  copy(slot(t, t->rank, round), data, bytes);
  ready(t, round, what);
  int failed = taken(t, round, others(t), what);
  if (failed) return failed;
  for (int rank = 0; rank < t->size; rank++) rows[rank] = rank == t->rank ? data : slot(t, rank, round);
  reduce_rows(data, NULL, rows, t->size, count, dtype, op);
  announce(t, 1, round + 1);
  t->round = round + 1;
  return OK;
}

/* Where a rank's part of a chunk begins; of rank "size": where the last one ends. */
static size_t part_begin(struct team *t, int rank, size_t chunk) {
  size_t each = divided_up(divided_up(chunk, t->size), ALIGN) * ALIGN;
  return lesser((size_t)rank * each, chunk);
}

static void put_for_others(struct team *t, uint32_t round, const char *data, size_t chunk) {
  char *to = slot(t, t->rank, round);
  size_t mine = part_begin(t, t->rank, chunk), after = part_begin(t, t->rank + 1, chunk);
  copy(to, data, mine);
  copy(to + after, data + after, chunk - after);
}

static void reduce_mine(struct team *t, uint32_t round, char *data, size_t chunk, int dtype, int op) {
  const void *rows[MOST_RANKS];
  size_t from = part_begin(t, t->rank, chunk), bytes = part_begin(t, t->rank + 1, chunk) - from;
  for (int rank = 0; rank < t->size; rank++)
    rows[rank] = (rank == t->rank ? data : slot(t, rank, round)) + from;
  reduce_rows(data + from, second_slot(t, t->rank, round), rows, t->size, bytes / element_bytes(dtype),
              dtype, op);
}

static void take_of_others(struct team *t, uint32_t round, char *data, size_t chunk) {
  for (int step = 1; step < t->size; step++) {
    int rank = (t->rank + step) % t->size;
    size_t from = part_begin(t, rank, chunk);
    copy(data + from, second_slot(t, rank, round), part_begin(t, rank + 1, chunk) - from);
  }
}

/*
 * In step i: give round i, reduce round i - 1, take round i - 2. A rank that has given round i has thus taken
 * round i - 3, and one that reduces round i has seen everybody give it: its second slot of round
 * i - DEPTH is free without anybody having to say so.
 */
static int allreduce_rounds(struct team *t, char *data, size_t bytes, int dtype, int op) {
  uint64_t what = described(ALLREDUCE, dtype, op, bytes);
  uint64_t rounds = divided_up(bytes, t->chunk);
  uint32_t first = t->round;
  for (uint64_t i = 0; i < rounds + 2; i++) {
    uint32_t round = first + (uint32_t)i;
    char *at = data + i * t->chunk;
    if (i < rounds) {
      if (begin(t, round)) return STOPPED;
      put_for_others(t, round, at, piece(bytes, i, t->chunk));
      ready(t, round, what);
    }
    if (i >= 1 && i - 1 < rounds) {
      int failed = taken(t, round - 1, others(t), what);
      if (failed) return failed;
      reduce_mine(t, round - 1, at - t->chunk, piece(bytes, i - 1, t->chunk), dtype, op);
      announce(t, 1, round);
    }
    if (i >= 2) {
      if (await(t, others(t), 1, round - 1)) return STOPPED;
      take_of_others(t, round - 2, at - 2 * t->chunk, piece(bytes, i - 2, t->chunk));
    }
  }
  t->round = first + (uint32_t)rounds;
  return OK;
}

int aitne_allreduce(struct team *t, char *data, uint64_t count, int dtype, int op) {
  size_t bytes = count * element_bytes(dtype);
  if (!bytes || t->size == 1) return OK;
  if (bytes <= t->small) return allreduce_at_once(t, data, bytes, count, dtype, op);
  return allreduce_rounds(t, data, bytes, dtype, op);
}

/* sizes: bytes of each rank's result. */
int aitne_reducescatter(struct team *t, char *out, const char *in, const uint64_t *sizes, int dtype, int op) {
  const void *rows[MOST_RANKS];
  uint64_t starts[MOST_RANKS] = {0}, total = 0, rounds = 0;
  size_t each = share(t);
  for (int rank = 0; rank < t->size; rank++) {
    starts[rank] = total;
    total += sizes[rank];
    if (divided_up(sizes[rank], each) > rounds) rounds = divided_up(sizes[rank], each);
  }
  if (t->size == 1) {
    copy(out, in, total);
    return OK;
  }
  uint64_t what = described(REDUCESCATTER, dtype, op, total);
  uint32_t first = t->round;
  for (uint64_t i = 0; i < rounds + (rounds > 0); i++) {
    uint32_t round = first + (uint32_t)i;
    if (i < rounds) {
      if (begin(t, round)) return STOPPED;
      for (int rank = 0; rank < t->size; rank++)
        if (rank != t->rank)
          copy(slot(t, t->rank, round) + rank * each, in + starts[rank] + i * each,
                 piece(sizes[rank], i, each));
      ready(t, round, what);
    }
    if (i >= 1) {
      int failed = taken(t, round - 1, others(t), what);
      if (failed) return failed;
      size_t bytes = piece(sizes[t->rank], i - 1, each);
      for (int rank = 0; rank < t->size; rank++)
        rows[rank] = rank == t->rank ? in + starts[rank] + (i - 1) * each
                                     : slot(t, rank, round - 1) + t->rank * each;
      reduce_rows(out + (i - 1) * each, NULL, rows, t->size, bytes / element_bytes(dtype), dtype, op);
      announce(t, 1, round);
    }
  }
  t->round = first + (uint32_t)rounds;
  return OK;
}

/* sizes: bytes of each rank. */
int aitne_allgather(struct team *t, char *out, const char *in, const uint64_t *sizes) {
  uint64_t starts[MOST_RANKS] = {0}, total = 0, rounds = 0;
  for (int rank = 0; rank < t->size; rank++) {
    starts[rank] = total;
    total += sizes[rank];
    if (divided_up(sizes[rank], t->chunk) > rounds) rounds = divided_up(sizes[rank], t->chunk);
  }
  if (out + starts[t->rank] != in) copy(out + starts[t->rank], in, sizes[t->rank]);
  if (t->size == 1) return OK;
  uint64_t what = described(ALLGATHER, 0, 0, total);
  uint32_t first = t->round;
  for (uint64_t i = 0; i < rounds + (rounds > 0); i++) {
    uint32_t round = first + (uint32_t)i;
    if (i < rounds) {
      if (begin(t, round)) return STOPPED;
      copy(slot(t, t->rank, round), out + starts[t->rank] + i * t->chunk,
             piece(sizes[t->rank], i, t->chunk));
      ready(t, round, what);
    }
    if (i >= 1) {
      int failed = taken(t, round - 1, others(t), what);
      if (failed) return failed;
      for (int step = 1; step < t->size; step++) {
        int rank = (t->rank + step) % t->size;
        copy(out + starts[rank] + (i - 1) * t->chunk, slot(t, rank, round - 1),
               piece(sizes[rank], i - 1, t->chunk));
      }
      announce(t, 1, round);
    }
  }
  t->round = first + (uint32_t)rounds;
  return OK;
}

int aitne_broadcast(struct team *t, char *data, uint64_t bytes, int root) {
  if (t->size == 1) return OK;
  uint64_t what = described(BROADCAST, root, 0, bytes);
  uint64_t rounds = divided_up(bytes, t->chunk);
  uint32_t first = t->round;
  for (uint64_t i = 0; i < rounds; i++) {
    uint32_t round = first + (uint32_t)i;
    if (begin(t, round)) return STOPPED;
    if (t->rank == root)
      copy(slot(t, root, round), data + i * t->chunk, piece(bytes, i, t->chunk));
    ready(t, round, what);
    if (t->rank != root) {
      int failed = taken(t, round, 1ull << root, what);
      if (failed) return failed;
      copy(data + i * t->chunk, slot(t, root, round), piece(bytes, i, t->chunk));
    }
    announce(t, 1, round + 1);
  }
  t->round = first + (uint32_t)rounds;
  return OK;
}

static int give_each(struct team *t, uint32_t round, uint64_t number, const char *in, const uint64_t *sizes,
                     uint64_t what) {
  size_t each = share(t);
  if (begin(t, round)) return STOPPED;
  for (int rank = 0; rank < t->size; rank++) {
    if (rank != t->rank)
      copy(slot(t, t->rank, round) + rank * each, in + number * each, piece(sizes[rank], number, each));
    in += sizes[rank];
  }
  ready(t, round, what);
  return OK;
}

static void take_each(struct team *t, uint32_t round, uint64_t number, char *out, const uint64_t *sizes) {
  size_t each = share(t);
  for (int rank = 0; rank < t->size; rank++) {
    if (rank != t->rank)
      copy(out + number * each, slot(t, rank, round) + t->rank * each, piece(sizes[rank], number, each));
    out += sizes[rank];
  }
}

static void keep_own(struct team *t, char *out, const char *in, const uint64_t *sent, const uint64_t *received) {
  for (int rank = 0; rank < t->rank; rank++) {
    in += sent[rank];
    out += received[rank];
  }
  copy(out, in, received[t->rank]);
}

/* sent, received: bytes for and from each rank. Nobody knows what goes between two others, so the first
 * round says how many rounds each rank needs. */
int aitne_alltoall(struct team *t, char *out, const char *in, const uint64_t *sent, const uint64_t *received) {
  uint64_t rounds = 1;
  for (int rank = 0; rank < t->size; rank++)
    if (rank != t->rank && divided_up(sent[rank], share(t)) > rounds)
      rounds = divided_up(sent[rank], share(t));
  keep_own(t, out, in, sent, received);
  if (t->size == 1) return OK;
  uint64_t what = described(ALLTOALL, 0, 0, rounds);
  uint32_t first = t->round;
  if (give_each(t, first, 0, in, sent, what)) return STOPPED;
  for (uint64_t i = 0; i < rounds; i++) {
    uint32_t round = first + (uint32_t)i;
    if (await(t, others(t), 0, round + 1)) return STOPPED;
    if (agree(t, round, others(t), what, 0xffff)) return DISAGREE;
    if (i == 0)
      for (int rank = 0; rank < t->size; rank++) {
        uint64_t needed = t->lines[rank].what[round % DEPTH] >> 16;
        if (needed > rounds) rounds = needed;
      }
    if (i + 1 < rounds && give_each(t, round + 1, i + 1, in, sent, what)) return STOPPED;
    take_each(t, round, i, out, received);
    announce(t, 1, round + 1);
  }
  t->round = first + (uint32_t)rounds;
  return OK;
}
