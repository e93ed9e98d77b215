# What a fuzz target needs beside Larder's own libraries: the sources in PARTS_<path without .c>.
PARTS_tests/fuzz/fuzz_stream_trace := bench/stream_bench/trace.c bench/stream_bench/lines.c bench/stream_bench/corpus.c \
	bench/support.c
