/* Element by element, several rows into one. */
#ifndef AITNE_REDUCE_H
#define AITNE_REDUCE_H

#include <stddef.h>

/* The numbers are known to Python: runtime/aitne_train/transport/_shm_kernel.py. */
enum dtype { F32, F64, F16, BF16, I8, I16, I32, I64, U8, BOOL, DTYPES };
enum op { SUM = 1, MIN = 3, MAX = 4, PRODUCT = 5, OPS };

/* Bytes of one element; 0: there is no such type. */
size_t element_bytes(int dtype);

/*
 * dst[i] = rows[0][i] op rows[1][i] op ... rows[n - 1][i], always in this order, so that every rank gets
 * the same bits. dst may be one of the rows. 16-bit floats are added up as 32-bit floats and rounded once.
 * Where copy is given, it gets the result too. n >= 2; rows hold whole elements.
 */
void reduce_rows(void *dst, void *copy, const void *const *rows, int n, size_t count, int dtype, int op);

#endif
