# What the programs of this folder link besides the usual.
LIBS_tests/recovery/recorder/crashdisk = $(call pkg,--libs fuse3)
