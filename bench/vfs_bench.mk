# What vfs_bench needs beside Larder's own libraries: C++ for base:fstream, PhysicsFS for peer:physfs (left out
# where it is not installed, as its target then is).
LIBS_bench/vfs_bench := $(call pkg,--libs physfs) -lstdc++
