# Larder's one Makefile. Sources are found by folder, so adding a file needs no edit here.
#
#   MODE=debug|release|asan|tsan|cov|fuzz   what to build (default release), into build/<mode>
#   CC=gcc|clang                            the compiler; clang builds into build/<mode>-clang
#   WERROR=1|0                              warnings are errors (default: with the compilers that the project is
#                                           checked with; another one may have warnings of its own)
#
# Which source belongs to what:
#   common packs cache vfs client/*.c       liblarder
#   client/cli/*.c                          larder        (all but main.c also link into unit tests)
#   server/*.c                              larderd       (all but main.c also link into unit tests)
#   bench/*_bench.c                         one program each; bench/NAME_bench/*.c and *.cc belong to that program,
#                                           the other bench/*.c to all of them. Nothing else is C++
#   tests/unit/<module>/test_*.c            one Criterion program each
#   tests/support/*.c tests/faults/*.c      helpers for every test program, tests/unit/<module>/*.c (not test_) too
#   tests/fuzz/fuzz_*.c                     one fuzz target each; tests/fuzz/corpus/<name>/, tests/fuzz/crashes/<name>/
#   tests/golden/*.c tests/stress/*.c       one plain program each
#   tests/recovery/*.c and its cli/*.c, recorder/*.c    one plain program each; its other folders are helpers of theirs
#                                           and of unit tests. recorder/ needs libfuse3 and is left out without it
# A program that needs more libraries says so in a *.mk file beside it: LIBS_<path without .c> = -l…
#
# Test programs link a second build of everything with -DLDR_TEST_SEAMS=1; production objects have no seams.

VERSION   := 0.1.0
SOVERSION := 0

# What a program outside the tree may include, installed flat as <larder/NAME.h>; what these include follows by itself.
PUBLIC_HEADERS := common/api.h common/error.h common/bytes.h common/path.h common/digest.h common/clock.h \
	common/keys.h packs/codec.h packs/pack_reader.h packs/pack_writer.h packs/tree_reader.h packs/release.h \
	packs/builder.h cache/memory.h cache/disk.h cache/source.h vfs/vfs.h vfs/file.h vfs/layer.h \
	vfs/watch.h vfs/layer_native.h vfs/layer_memory.h vfs/layer_tree.h vfs/layer_inner.h vfs/scheduler.h vfs/trace.h \
	vfs/backend.h client/transport.h client/fetch.h client/release_layer.h \
	client/install.h client/publish.h client/store.h

# ---- mode and compiler -----------------------------------------------------------------------------

MODE ?= release
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(MODE),fuzz)
CC := clang
endif
AR ?= ar

CC_NAME   := $(notdir $(firstword $(CC)))
CC_SUFFIX := $(if $(filter fuzz,$(MODE)),,$(if $(filter gcc,$(CC_NAME)),,-$(CC_NAME)))
B         := build/$(MODE)$(CC_SUFFIX)

CC_CHECKED := gcc-12 clang-14
WERROR ?= $(if $(filter $(CC_NAME)-$(shell $(CC) -dumpversion | cut -d. -f1),$(CC_CHECKED)),1,0)
JOBS   ?= 2
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib

SAN_UNDEFINED := -fsanitize=undefined -fno-sanitize-recover=all
MODE_debug    := -Og -g3 -DLDR_DEBUG=1
MODE_release  := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
MODE_asan     := -O1 -g -fno-omit-frame-pointer -fsanitize=address $(SAN_UNDEFINED) -DLDR_DEBUG=1
MODE_tsan     := -O1 -g -fno-omit-frame-pointer -fsanitize=thread -DLDR_DEBUG=1
MODE_cov      := -O0 -g --coverage -DLDR_DEBUG=1
MODE_fuzz     := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address $(SAN_UNDEFINED) -DLDR_DEBUG=1
MODE_FLAGS    := $(MODE_$(MODE))
ifeq ($(MODE_FLAGS),)
$(error MODE=$(MODE) is not one of debug release asan tsan cov fuzz)
endif

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wmissing-declarations \
	-Wold-style-definition -Wvla -Wpointer-arith -Wcast-qual -Wwrite-strings -Wformat=2 \
	-Wimplicit-fallthrough
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif

# ---- libraries -------------------------------------------------------------------------------------

PKG_CONFIG ?= pkg-config
PKGS_LIB   := libcurl liblz4 libzstd libxxhash jansson libutf8proc libcrypto
PKGS_HTTPD := libmicrohttpd
PKGS_TEST  := criterion
pkg         = $(shell $(PKG_CONFIG) --silence-errors $(1))

# mbedTLS 2.28 has no pkg-config file.
LIBS       := $(call pkg,--libs $(PKGS_LIB)) -lmbedx509 -lmbedcrypto -pthread
LIBS_HTTPD := $(call pkg,--libs $(PKGS_HTTPD))
# Criterion does not run under the thread sanitizer; a small stand-in does.
ifeq ($(MODE),tsan)
CFLAGS_TEST := -Itests/support/tsan
LIBS_TEST   :=
SHIM_SRCS   := tests/support/tsan/shim.c
else
CFLAGS_TEST := $(call pkg,--cflags $(PKGS_TEST))
LIBS_TEST   := $(call pkg,--libs $(PKGS_TEST))
SHIM_SRCS   :=
endif

CPPFLAGS_ALL := -I. -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DLDR_VERSION='"$(VERSION)"' \
	$(call pkg,--cflags $(PKGS_LIB) $(PKGS_HTTPD)) $(CPPFLAGS)
CFLAGS_ALL   := -std=gnu11 -pthread -fPIC -fvisibility=hidden $(WARNINGS) $(MODE_FLAGS) $(CFLAGS)
CPPFLAGS_TEST := -DLDR_TEST_SEAMS=1 $(CFLAGS_TEST)
LDFLAGS_ALL  := -pthread -Wl,--as-needed $(filter -fsanitize% -fno-sanitize% --coverage,$(MODE_FLAGS)) $(LDFLAGS)

# ---- what there is ---------------------------------------------------------------------------------

LIB_DIRS := common packs cache vfs client
LIB_SRCS := $(sort $(wildcard $(addsuffix /*.c,$(LIB_DIRS))))
CLI_SRCS := $(sort $(wildcard client/cli/*.c))
SRV_SRCS := $(sort $(wildcard server/*.c))
CLI_MAIN := $(filter client/cli/main.c,$(CLI_SRCS))
SRV_MAIN := $(filter server/main.c,$(SRV_SRCS))
CLI_REST := $(filter-out $(CLI_MAIN),$(CLI_SRCS))
SRV_REST := $(filter-out $(SRV_MAIN),$(SRV_SRCS))

BENCH_MAINS  := $(sort $(wildcard bench/*_bench.c))
BENCH_SHARED := $(filter-out $(BENCH_MAINS),$(sort $(wildcard bench/*.c)))
BENCH_PARTS  := $(sort $(wildcard bench/*_bench/*.c bench/*_bench/*.cc))

UNIT_SRCS     := $(sort $(wildcard tests/unit/*/test_*.c))
SUPPORT_SRCS  := $(sort $(wildcard tests/support/*.c tests/faults/*.c tests/recovery/core/*.c tests/recovery/sim/*.c) \
	$(filter-out $(UNIT_SRCS),$(wildcard tests/unit/*/*.c)))
FUZZ_SRCS     := $(sort $(wildcard tests/fuzz/fuzz_*.c))
STRESS_SRCS   := $(sort $(wildcard tests/stress/*.c))
RECOVERY_SRCS := $(sort $(wildcard tests/recovery/*.c tests/recovery/cli/*.c) \
	$(if $(call pkg,--libs fuse3),$(wildcard tests/recovery/recorder/*.c)))
GOLDEN_SRCS   := $(sort $(wildcard tests/golden/*.c))
HEADERS       := $(sort $(wildcard $(addsuffix /*.h,$(LIB_DIRS) client/cli server bench bench/*_bench \
	tests/support tests/faults tests/unit/* tests/fuzz tests/stress tests/recovery tests/recovery/*)))

obj  = $(patsubst %.c,$(B)/obj/%.o,$(patsubst %.cc,%.c,$(1)))
seam = $(patsubst %.c,$(B)/seam/%.o,$(1))

PROGRAMS      := $(if $(CLI_MAIN),$(B)/larder) $(if $(SRV_MAIN),$(B)/larderd)
SEAM_PROGRAMS := $(if $(CLI_MAIN),$(B)/seams/larder) $(if $(SRV_MAIN),$(B)/seams/larderd)
LIBRARIES     := $(if $(LIB_SRCS),$(B)/liblarder.a $(B)/liblarder.so)
BENCHES       := $(patsubst bench/%.c,$(B)/bench/%,$(BENCH_MAINS))
UNIT_BINS     := $(patsubst %.c,$(B)/%,$(UNIT_SRCS))
REPLAY_BINS   := $(patsubst %.c,$(B)/%,$(FUZZ_SRCS))
STRESS_BINS   := $(patsubst %.c,$(B)/%,$(STRESS_SRCS))
RECOVERY_BINS := $(patsubst %.c,$(B)/%,$(RECOVERY_SRCS))
GOLDEN_BINS   := $(patsubst %.c,$(B)/%,$(GOLDEN_SRCS))
TEST_BINS     := $(UNIT_BINS) $(REPLAY_BINS) $(GOLDEN_BINS) $(STRESS_BINS) $(RECOVERY_BINS)
FUZZ_BINS     := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ_SRCS))

-include $(sort $(wildcard bench/*.mk tests/recovery/*.mk tests/stress/*.mk tests/fuzz/*.mk tests/unit/*/*.mk))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory
# V=1 shows whole commands; otherwise each step is one short line.
ifeq ($(V),1)
say := @:
run :=
else
say := @printf '  %-6s %s\n'
run := @
endif
.SECONDARY:

# ---- building --------------------------------------------------------------------------------------

.PHONY: all lib programs benches tests-build
all: lib programs ## the library and the programs
lib: $(LIBRARIES) ## liblarder.a and liblarder.so
programs: $(PROGRAMS)
benches: $(BENCHES) ## the benchmark programs, into build/<mode>/bench
tests-build: all $(SEAM_PROGRAMS) $(TEST_BINS) ## all test programs, not run

# Stamps change only when what they hold changes: the flags rebuild objects, the lists rebuild archives.
FLAGS_TEXT := $(CC) | $(CPPFLAGS_ALL) | $(CFLAGS_ALL) | $(LDFLAGS_ALL) | $(LIBS) $(LIBS_HTTPD)
LIST_TEXT  := $(LIB_SRCS) | $(CLI_SRCS) | $(SRV_SRCS) | $(SUPPORT_SRCS) | $(BENCH_SHARED) $(BENCH_PARTS)
define stamp
@mkdir -p $(@D)
@printf '%s\n' $(call quote,$(1)) | cmp -s - $@ || printf '%s\n' $(call quote,$(1)) >$@
endef
quote = '$(subst ','\'',$(1))'

.PHONY: FORCE
FORCE:
$(B)/.flags: FORCE
	@$(PKG_CONFIG) --print-errors --exists $(PKGS_LIB) $(PKGS_HTTPD) || \
		{ echo "development packages are missing: run sh deploy/setup.sh" >&2; exit 1; }
	$(call stamp,$(FLAGS_TEXT))
$(B)/.lists: FORCE
	$(call stamp,$(LIST_TEXT))

CXX := $(if $(filter clang%,$(CC_NAME)),$(CC:clang%=clang++%),$(CC:gcc%=g++%))
CXXFLAGS_ALL := -std=gnu++17 -Wno-missing-declarations \
	$(filter-out -std=% -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition,$(CFLAGS_ALL))
COMPILE = $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP
$(B)/obj/%.o: %.c $(B)/.flags
	@mkdir -p $(@D)
	$(say) CC $@
	$(run)$(COMPILE) -c $< -o $@
$(B)/obj/%.o: %.cc $(B)/.flags
	@mkdir -p $(@D)
	$(say) CXX $@
	$(run)$(CXX) $(CPPFLAGS_ALL) $(CXXFLAGS_ALL) -MMD -MP -c $< -o $@
$(B)/seam/%.o: %.c $(B)/.flags
	@mkdir -p $(@D)
	$(say) CC $@
	$(run)$(COMPILE) $(CPPFLAGS_TEST) -c $< -o $@

# An archive with no members is legal, so a module without sources yet still links.
define archive
@mkdir -p $(@D)
@rm -f $@
$(run)$(AR) rcsD $@ $(filter %.o,$^)
endef
$(B)/liblarder.a: $(call obj,$(LIB_SRCS)) $(B)/.lists
	$(archive)
$(B)/obj/libcli.a: $(call obj,$(CLI_REST)) $(B)/.lists
	$(archive)
$(B)/obj/libserver.a: $(call obj,$(SRV_REST)) $(B)/.lists
	$(archive)
$(B)/obj/libbench.a: $(call obj,$(BENCH_SHARED)) $(B)/.lists
	$(archive)
$(B)/seam/liblarder.a: $(call seam,$(LIB_SRCS)) $(B)/.lists
	$(archive)
$(B)/seam/libcli.a: $(call seam,$(CLI_REST)) $(B)/.lists
	$(archive)
$(B)/seam/libserver.a: $(call seam,$(SRV_REST)) $(B)/.lists
	$(archive)
$(B)/seam/libsupport.a: $(call seam,$(SUPPORT_SRCS)) $(B)/.lists
	$(archive)

LINK = $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL)
own_libs = $(LIBS_$(patsubst $(B)/%,%,$(1)))

$(B)/liblarder.so: $(call obj,$(LIB_SRCS)) $(B)/.lists
	$(say) LINK $@
	$(run)$(LINK) -shared -Wl,-soname,liblarder.so.$(SOVERSION) $(filter %.o,$^) $(LIBS) -o $@
	@ln -sf liblarder.so $@.$(SOVERSION)
$(B)/larder: $(call obj,$(CLI_MAIN)) $(B)/obj/libcli.a $(B)/liblarder.a
	$(say) LINK $@
	$(run)$(LINK) $^ $(LIBS) -o $@
$(B)/larderd: $(call obj,$(SRV_MAIN)) $(B)/obj/libserver.a $(B)/liblarder.a
	$(say) LINK $@
	$(run)$(LINK) $^ $(LIBS) $(LIBS_HTTPD) -o $@
$(B)/seams/larder: $(call seam,$(CLI_MAIN)) $(B)/seam/libcli.a $(B)/seam/liblarder.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(run)$(LINK) $^ $(LIBS) -o $@
$(B)/seams/larderd: $(call seam,$(SRV_MAIN)) $(B)/seam/libserver.a $(B)/seam/liblarder.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(run)$(LINK) $^ $(LIBS) $(LIBS_HTTPD) -o $@

.SECONDEXPANSION:
$(B)/bench/%: $(B)/obj/bench/%.o $$(call obj,$$(wildcard bench/$$*/*.c bench/$$*/*.cc)) $(B)/obj/libbench.a \
		$(B)/obj/libserver.a $(B)/liblarder.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(run)$(LINK) $^ $(call own_libs,$@) $(LIBS) $(LIBS_HTTPD) -o $@

TEST_ARCHIVES := $(B)/seam/libsupport.a $(B)/seam/libcli.a $(B)/seam/libserver.a $(B)/seam/liblarder.a
$(B)/tests/unit/%: $(B)/seam/tests/unit/%.o $(call seam,$(SHIM_SRCS)) $(TEST_ARCHIVES)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(run)$(LINK) $^ $(call own_libs,$@) $(LIBS) $(LIBS_HTTPD) $(LIBS_TEST) -o $@
define plain_program
@mkdir -p $(@D)
$(say) LINK $@
$(run)$(LINK) $^ $(call own_libs,$@) $(LIBS) $(LIBS_HTTPD) -o $@
endef
$(B)/tests/golden/%: $(B)/seam/tests/golden/%.o $(TEST_ARCHIVES)
	$(plain_program)
$(B)/tests/stress/%: $(B)/seam/tests/stress/%.o $(TEST_ARCHIVES)
	$(plain_program)
$(B)/tests/recovery/%: $(B)/seam/tests/recovery/%.o $(TEST_ARCHIVES)
	$(plain_program)
# A fuzz target is built twice: with a main that replays files (any mode), and with libFuzzer (MODE=fuzz).
$(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/%.o $(B)/obj/tests/fuzz/replay.o $$(call obj,$$(PARTS_tests/fuzz/$$*)) $(B)/seam/libsupport.a \
		$(B)/obj/libserver.a $(B)/liblarder.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(run)$(LINK) $^ $(LIBS) $(LIBS_HTTPD) -o $@
$(B)/fuzz/%: $(B)/obj/tests/fuzz/%.o $$(call obj,$$(PARTS_tests/fuzz/$$*)) $(B)/seam/libsupport.a $(B)/obj/libserver.a $(B)/liblarder.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(run)$(LINK) -fsanitize=fuzzer $^ $(LIBS) $(LIBS_HTTPD) -o $@

-include $(shell test -d $(B) && find $(B) -name '*.d')

# ---- testing ---------------------------------------------------------------------------------------
# T= narrows a suite to the files whose path contains it: make unit T=common/test_error

RUN = BUILD=$(B) MODE=$(MODE) JOBS=$(JOBS) T='$(T)' tests/run.sh
.PHONY: unit scenario scenario-quick regress golden fuzz-replay should-fail stress crash-test-quick
unit: $(UNIT_BINS) ## unit tests (in MODE=, say debug or asan)
	$(RUN) unit
scenario: all $(SEAM_PROGRAMS) ## whole-program tests
	$(RUN) scenario
scenario-quick: all $(SEAM_PROGRAMS) ## those scenarios marked "size: quick"
	$(RUN) scenario-quick
regress: all $(SEAM_PROGRAMS) ## one test for each fault that was found
	$(RUN) regress
golden: all $(GOLDEN_BINS) ## fixed files against their digests
	$(RUN) golden
fuzz-replay: $(REPLAY_BINS) ## corpus and kept crashes through every fuzz target
	$(RUN) fuzz-replay
should-fail: ## the checkers against inputs that they must refuse
	$(RUN) should-fail
stress: $(STRESS_BINS) ## threads under load (meant for MODE=tsan)
	$(RUN) stress
crash-test-quick: all $(SEAM_PROGRAMS) $(RECOVERY_BINS) ## crash states of every publication, the short campaign
	$(RUN) recovery
.PHONY: crash-test crash-test-full crash-kills
crash-kills: all ## 200 clients and 200 servers killed under load
	BUILD=$(B) tests/recovery/kills.sh 200
crash-test: all $(SEAM_PROGRAMS) $(RECOVERY_BINS) ## every publication cut short on real file systems, as root (under 6 minutes)
	BUILD=$(B) tests/recovery/crash-test.sh gate
crash-test-full: all $(SEAM_PROGRAMS) $(RECOVERY_BINS) ## the same with nothing sampled (hours; MINUTES=60 bounds it and says what was not reached)
	BUILD=$(B) tests/recovery/crash-test.sh full

.PHONY: check test ci
check: ## debug build, checkers, unit, golden, fuzz replay, quick scenarios (under 3 minutes)
	$(MAKE) MODE=debug tests-build
	$(MAKE) MODE=debug check-layers check-headers check-format check-style check-seams check-symbols
	BUILD=build/debug MODE=debug JOBS=$(JOBS) tests/run.sh unit golden fuzz-replay scenario-quick
TEST_SUITES := unit golden fuzz-replay should-fail scenario $(if $(wildcard tests/regress/*),regress) $(if $(wildcard tests/recovery/run.sh),recovery)
test: ## everything a change must pass (under 20 minutes)
	$(MAKE) MODE=debug tests-build
	$(MAKE) MODE=release all benches
	$(MAKE) MODE=release CC=clang tests-build benches
	$(MAKE) MODE=release check-layers check-headers check-format check-style check-seams check-symbols \
		check-install
	BUILD=build/debug PROGRAMS=build/release MODE=debug JOBS=$(JOBS) tests/run.sh $(TEST_SUITES)
	BUILD=build/debug MODE=debug JOBS=$(JOBS) T=stress/scheduler tests/run.sh stress
ci: ## test, then sanitizers, longer fuzzing and clang-tidy (under 40 minutes)
	LARDER_CI=1 $(MAKE) test
	$(MAKE) check-tidy
	$(MAKE) MODE=asan tests-build
	BUILD=build/asan MODE=asan JOBS=$(JOBS) tests/run.sh unit fuzz-replay scenario-quick
	$(MAKE) MODE=tsan tests-build
	BUILD=build/tsan MODE=tsan JOBS=$(JOBS) tests/run.sh unit $(if $(STRESS_SRCS),stress)
	$(MAKE) fuzz FUZZ_SECONDS=30

.PHONY: coverage
coverage: ## lines that unit tests and scenarios reach, into build/cov
	$(MAKE) MODE=cov tests-build
	find build/cov -name '*.gcda' -delete
	-BUILD=build/cov MODE=cov JOBS=$(JOBS) T='$(T)' tests/run.sh unit fuzz-replay scenario
	python3 tests/coverage.py build/cov

FUZZ_SECONDS ?= 60
.PHONY: fuzz fuzz-run
fuzz: ## every fuzz target for FUZZ_SECONDS= each
	$(MAKE) MODE=fuzz fuzz-run FUZZ_SECONDS=$(FUZZ_SECONDS)
fuzz-run: $(FUZZ_BINS)
	tests/fuzz.sh $(B) $(FUZZ_SECONDS) '$(T)'

# ---- checking --------------------------------------------------------------------------------------

.PHONY: check-layers check-headers check-format check-style check-tidy check-seams check-symbols check-install
check-layers: ## includes follow the order of the modules
	python3 tests/check-layers.py
check-headers: ## every header compiles alone, with gcc and clang
	CPPFLAGS=$(call quote,$(CPPFLAGS_ALL)) tests/check-headers.sh $(HEADERS)
check-format: ## clang-format finds nothing to change
	tests/check-format.sh
check-style: ## no banned calls, no open ends, no giant files
	tests/check-style.sh
check-tidy: ## clang-tidy, with the limits on the size of functions
	CPPFLAGS=$(call quote,$(CPPFLAGS_ALL) $(CPPFLAGS_TEST)) JOBS=$(JOBS) tests/check-tidy.sh
check-seams: $(B)/liblarder.a ## production objects hold no test seams
	tests/check-seams.sh $(B)/liblarder.a
check-symbols: $(B)/liblarder.so ## the shared library exports ldr_ names only
	tests/check-symbols.sh $(B)/liblarder.so
check-install: all ## an installed copy compiles and links
	CC='$(CC)' MAKE='$(MAKE)' tests/check-install.sh '$(MODE)' '$(WERROR)'

# ---- using -----------------------------------------------------------------------------------------

.PHONY: bench bench-artifacts demo install clean help compile_commands.json
bench: benches all ## the benchmarks against their peers, as ratios
	@test -e bench/run.sh || { echo "no benchmark runner yet" >&2; exit 1; }
	BUILD=$(B) bash bench/run.sh
bench-artifacts: benches all ## evidence of the streaming benchmarks on this machine, into build/bench/artifacts
	BUILD=$(B) bash bench/artifacts.sh
demo: ## two real releases published, installed, updated and read back over loopback
	sh deploy/demo.sh
install: all ## programs, library and headers, below DESTDIR= and PREFIX=
	DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' VERSION='$(VERSION)' SOVERSION='$(SOVERSION)' \
	PKGS='$(PKGS_LIB)' sh deploy/install.sh $(B) $(wildcard $(PUBLIC_HEADERS))
compile_commands.json: ## for editors, by bear where it is installed
	@command -v bear >/dev/null || { echo "bear is not installed" >&2; exit 1; }
	bear -- $(MAKE) -B MODE=debug CC=clang tests-build
clean: ## remove everything that was built
	rm -rf build compile_commands.json
help: ## this list
	@sed -n 's/^\([a-z_.-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22
