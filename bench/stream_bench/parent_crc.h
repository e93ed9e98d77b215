/*
 * What the parent system's pack reader does to a byte, as a layer on this machine: each read takes the whole 64 KiB blocks that it
 * touches from the file, computes their CRC-32 bit by bit, copies them twice (stored to decoded, decoded to the caller), and looks at
 * the file's attributes six times. Nothing is kept from one read to the next.
 *
 * The file is expected.bin, as a pack of raw blocks.
 *
 * Threads: any; reads of one open file take turns, as they share its scratch.
 */
#ifndef LDR_BENCH_STREAM_PARENT_CRC_H
#define LDR_BENCH_STREAM_PARENT_CRC_H

#include <stdbool.h>

#include "bench/stream_bench/corpus.h"
#include "vfs/layer.h"

/* Owns: ldr_layer_unref. The corpus must outlive the layer. False after bench_say. */
bool stream_parent_layer(const struct stream_corpus *corpus, struct ldr_layer **out_layer);

#endif
