# Makefile - the whole build; `make help` lists the targets.
# GNU make 3.81 (what macOS has) is enough.

MODE ?= release
B := build/$(MODE)
UNAME := $(shell uname -s)

# Homebrew keeps its libraries outside the compiler's search path.
# $(shell) does not see exported variables before GNU make 4.4: name them.
PKG_CONFIG := pkg-config
ifeq ($(UNAME),Darwin)
BREW := $(shell brew --prefix 2>/dev/null)
PKG_CONFIG := PKG_CONFIG_PATH='$(BREW)/lib/pkgconfig:$(BREW)/opt/openssl@3/lib/pkgconfig:$(BREW)/opt/libpq/lib/pkgconfig:$(BREW)/opt/curl/lib/pkgconfig:$(PKG_CONFIG_PATH)' pkg-config
endif

# --- components: a folder each, a static library each -----------------------
# Every .c of a folder belongs to it, main.c and *_main.c excepted: those are
# programs.
COMPONENTS := common model placement ledger inference coordinator node-agent cli
common.src      := $(wildcard common/*.c)
model.src       := $(wildcard model/*.c)
placement.src   := $(wildcard placement/*.c)
ledger.src      := $(wildcard ledger/*.c)
inference.src   := $(wildcard inference/*.c inference/cpu/*.c)
coordinator.src := $(wildcard coordinator/*.c)
node-agent.src  := $(wildcard node-agent/*.c)
cli.src         := $(wildcard cli/*.c)

# Files for one operating system or one processor only.
OTHER_OS_Linux := %_darwin.c %_kqueue.c
OTHER_OS_Darwin := %_linux.c %_epoll.c
is_program = $(filter %/main.c %_main.c,$(1))
library_src = $(filter-out $(OTHER_OS_$(UNAME)) %/main.c %_main.c,$($(1).src))

PROGRAMS := berth-coordinator berth-node berth-engine berth
berth-coordinator.main := coordinator/main.c
berth-coordinator.libs := coordinator ledger placement model common
berth-node.main        := node-agent/main.c
berth-node.libs        := node-agent model common
berth-engine.main      := inference/main.c
berth-engine.libs      := inference model common
berth.main             := cli/main.c
berth.libs             := cli placement ledger model common

PKGS := libpq openssl jansson libevent libevent_openssl libevent_pthreads \
        libmicrohttpd gnutls libcurl libpcre2-8 libutf8proc zlib libzstd
TEST_PKGS := cmocka

# --- flags -------------------------------------------------------------------
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wvla -Wwrite-strings -Wcast-qual -Wformat=2 \
        -Wundef -Werror
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)
TEST_LIBS := $(shell $(PKG_CONFIG) --libs $(TEST_PKGS) 2>/dev/null)
CPPFLAGS += -I. -I$(B) -D_DEFAULT_SOURCE -D_DARWIN_C_SOURCE $(PKG_CFLAGS) \
            $(CPPFLAGS.$(MODE))
CFLAGS ?= -g
# No contraction: equal inputs give equal sums on every machine.
ALL_CFLAGS = -std=c17 -pthread $(WARN) $(CFLAGS) $(CFLAGS.$(MODE)) \
             -ffp-contract=off -MMD -MP
CFLAGS.release := -O2 -fstack-protector-strong -fPIE
CPPFLAGS.release := -D_FORTIFY_SOURCE=2
CFLAGS.debug := -O0
CPPFLAGS.debug := -DBERTH_FAULTS
CFLAGS.asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
               -fno-omit-frame-pointer
CPPFLAGS.asan := -DBERTH_FAULTS
CFLAGS.tsan := -O1 -fsanitize=thread -fno-omit-frame-pointer
CFLAGS.coverage := -O0 --coverage
LDFLAGS.release.Linux := -pie -Wl,-z,relro,-z,now
ALL_LDFLAGS = $(LDFLAGS) $(LDFLAGS.$(MODE).$(UNAME)) \
              $(filter -fsanitize% --coverage,$(CFLAGS.$(MODE))) -pthread
LIBS := $(PKG_LIBS) -lm

ifeq ($(V),1)
Q :=
else
Q := @
endif

.DELETE_ON_ERROR:
.PHONY: all programs deps deps-check demo run stop check check-all check-unit \
        check-asan check-tsan check-programs check-darwin check-arm64 fuzz-smoke chaos points \
        soak bench bench-speed lint format golden install uninstall dist clean help
.DEFAULT_GOAL := all

all: programs

# --- libraries ---------------------------------------------------------------
OBJ := $(foreach c,$(COMPONENTS),$(patsubst %.c,$(B)/%.o,$(call library_src,$(c))))
define library
$(B)/lib$(1).a: $(patsubst %.c,$(B)/%.o,$(call library_src,$(1)))
	@rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$^
endef
$(foreach c,$(COMPONENTS),$(eval $(call library,$(c))))

MIGRATIONS := $(sort $(wildcard ledger/migrations/*.sql))
$(B)/libledger.a: $(B)/ledger/migrations.o
$(B)/ledger/migrations.c: ledger/migrations/embed.awk $(MIGRATIONS)
	@mkdir -p $(@D)
	$(Q)awk -f ledger/migrations/embed.awk $(MIGRATIONS) > $@
$(B)/ledger/migrations.o: WARN += -Wno-overlength-strings

# The kernels are where optimisation pays.
$(B)/inference/cpu/%.o: CFLAGS.release := -O3 -fstack-protector-strong -fPIE
$(B)/inference/cpu/%.o: CFLAGS.debug := -O2
# Chosen when the program runs, so the rest must do without.
ifneq ($(filter aarch64 arm64,$(shell uname -m)),)
$(B)/inference/cpu/integer_neon.o: CPPFLAGS += -march=armv8.2-a+dotprod
endif

$(B)/%.o: %.c
	@mkdir -p $(@D)
	@echo "cc    $<"
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
$(B)/%.o: $(B)/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# --- programs ----------------------------------------------------------------
# build/bin holds the release programs; other modes keep theirs beside.
BIN := $(if $(filter release,$(MODE)),build/bin,$(B)/bin)
define program
$(BIN)/$(1): $(patsubst %.c,$(B)/%.o,$($(1).main)) $($(1).libs:%=$(B)/lib%.a)
	@mkdir -p $$(@D)
	@echo "link  $$@"
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -o $$@ $$< $($(1).libs:%=$(B)/lib%.a) $$(LIBS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call program,$(p))))
programs: $(PROGRAMS:%=$(BIN)/%)

# --- tests -------------------------------------------------------------------
TEST_SRC := $(wildcard tests/unit/*_test.c tests/property/*_test.c)
TESTS := $(patsubst %.c,$(B)/%,$(TEST_SRC))
# Tests that start programs of ours; the rest are libraries alone.
INTEGRATION_SRC := $(wildcard tests/integration/*_test.c)
INTEGRATION := $(patsubst %.c,$(B)/%,$(INTEGRATION_SRC)) \
               $(wildcard tests/integration/*.sh)
# cable.c is a program of its own; the rest of the harness is linked into tests.
HARNESS_SRC := $(filter-out tests/harness/cable.c $(OTHER_OS_$(UNAME)),\
                 $(wildcard tests/harness/*.c))
HARNESS_OBJ := $(HARNESS_SRC:%.c=$(B)/%.o)
CABLE := $(B)/tests/harness/cable

$(B)/tests/integration/cable_test: | $(CABLE)
$(B)/libharness.a: $(HARNESS_OBJ)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
$(CABLE): $(B)/tests/harness/cable.o $(B)/libharness.a $(B)/libcommon.a
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
# A test is named for its component and linked with what that may use; the
# books of the harness want the ledger.
test.common.libs      := common
test.model.libs       := model common
test.placement.libs   := placement common
test.ledger.libs      := ledger common
test.inference.libs   := inference model common
test.coordinator.libs := $(berth-coordinator.libs)
test.node.libs        := $(berth-node.libs)
test.cli.libs         := $(berth.libs)
test.seam.libs        := inference $(berth-coordinator.libs)
test_libs = $(or $(test.$(firstword $(subst _, ,$(notdir $(1)))).libs),ledger common)
define test_program
$(B)/$(1): $(B)/$(1).o $(B)/libharness.a $(patsubst %,$(B)/lib%.a,$(call test_libs,$(1)) ledger common)
	@echo "link  $$@"
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -o $$@ $$< $(B)/libharness.a $(patsubst %,$(B)/lib%.a,$(call test_libs,$(1)) ledger common) $$(LIBS) $$(TEST_LIBS)
endef
$(foreach t,$(TEST_SRC:.c=) $(INTEGRATION_SRC:.c=),$(eval $(call test_program,$(t))))
# One test program: make build/release/tests/unit/x_test && ./build/...
.SECONDARY:

# What the JavaScript tests need; deploy/deps puts it there.
JS := tests/js/node_modules/.berth-lock
$(JS): tests/js/package.json tests/js/package-lock.json
	@sh deploy/deps check

BENCH_SRC := $(wildcard tests/bench/*_bench.c)
BENCH := $(BENCH_SRC:%.c=$(B)/%)
$(foreach t,$(BENCH_SRC:.c=),$(eval $(call test_program,$(t))))

# The flags above ask pkg-config, so what is missing must be there before make
# reads this file: deps runs, then make starts anew.
deps:
	@sh deploy/deps

deps-check:
	@sh deploy/deps check

check: deps-check
	@$(MAKE) check-all

check-all: all $(TESTS) $(INTEGRATION) $(CABLE) $(JS)
	@CABLE=$(CABLE) sh tests/run tests/lint/check.sh tests/run_test.sh \
	    tests/lint/selftest tests/darwin/check tests/arm64/check $(TESTS) $(INTEGRATION)

# The libraries' tests alone: seconds, not minutes.
check-unit: $(TESTS)
	@sh tests/run $(TESTS)

# The whole suite with instrumented programs.  What only measures sources is
# left to `make check`.
check-asan:
	@BERTH_BIN=$(CURDIR)/build/asan/bin TEST_TIMEOUT_S=3600 \
	    $(MAKE) MODE=asan check-programs
check-tsan:
	@BERTH_BIN=$(CURDIR)/build/tsan/bin TEST_TIMEOUT_S=7200 \
	    $(MAKE) MODE=tsan check-programs
check-programs: all $(TESTS) $(INTEGRATION) $(CABLE) $(JS)
	@CABLE=$(CABLE) sh tests/run $(TESTS) $(INTEGRATION)

# NEON kernels under emulation, bit for bit those of the other processors.
check-arm64:
	@sh tests/arm64/check

check-darwin: $(JS)
	@sh tests/darwin/check

fuzz-smoke:
	@sh tests/fuzz/smoke

# make chaos SEED=n FAULTS=n ONLY=kind,...: docs/chaos.md
chaos: all $(JS)
	@SEED=$(SEED) FAULTS=$(FAULTS) ONLY=$(ONLY) \
	    tests/integration/with_node tests/chaos/chaos.mjs

# Every FAULT_POINT and FAULT_STEP, one after the other.
points: $(JS)
	@$(MAKE) MODE=debug programs
	@tests/integration/with_node tests/chaos/points.mjs

# One engine under mixed requests; make soak MINUTES=n SEED=n MODEL=name.
soak: all $(JS)
	@MINUTES=$(MINUTES) SEED=$(SEED) MODEL=$(MODEL) \
	    tests/integration/with_node tests/soak/soak.mjs

bench: all $(BENCH)
	@for program in $(BENCH); do $$program || exit 1; done

# The engine beside llama.cpp and reading memory: docs/benchmarks.md.
bench-speed: all build/release/tests/bench/read_bench
	@tests/integration/with_node tests/bench/speed.mjs

lint:
	@sh tests/lint/lint

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

golden: $(TESTS)
	@GOLDEN=1 sh tests/run $(TESTS)

# --- running -----------------------------------------------------------------
demo: deps
	@$(MAKE) all
	@sh deploy/run demo

run: deps
	@$(MAKE) all
	@sh deploy/run

stop:
	@sh deploy/run stop

# --- installing --------------------------------------------------------------
PREFIX ?= /usr/local
MAN1 := docs/man/berth.1 docs/man/berth-engine.1
MAN8 := docs/man/berth-coordinator.8 docs/man/berth-node.8
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
	    $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 755 $(PROGRAMS:%=build/bin/%) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(MAN1) $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MAN8) $(DESTDIR)$(PREFIX)/share/man/man8

uninstall:
	rm -f $(PROGRAMS:%=$(DESTDIR)$(PREFIX)/bin/%)
	rm -f $(MAN1:docs/man/%=$(DESTDIR)$(PREFIX)/share/man/man1/%)
	rm -f $(MAN8:docs/man/%=$(DESTDIR)$(PREFIX)/share/man/man8/%)

dist:
	@mkdir -p build
	git archive --format=tar.gz --prefix=berth/ -o build/berth.tar.gz HEAD

clean:
	@sh deploy/run clean
	rm -rf build

help:
	@echo 'make           all programs, into build/bin'
	@echo 'make deps      install what is missing (Debian, Ubuntu, Homebrew)'
	@echo 'make demo      a whole network here: a job, an answer, the books'
	@echo 'make run       the same network, until interrupted; make stop ends it'
	@echo 'make check     all tests that need no special hardware'
	@echo 'make check-unit     the libraries alone'
	@echo 'make check-asan, check-tsan   all tests, instrumented'
	@echo 'make check-darwin   compile every file for macOS on arm64'
	@echo 'make check-arm64    the NEON kernels under emulation'
	@echo 'make fuzz-smoke     each fuzz target for a short while'
	@echo 'make chaos     1,000 faults under load; SEED=n FAULTS=n ONLY=kind,...'
	@echo 'make points    a part dies at each point between two steps'
	@echo 'make soak      one engine at its limit for 30 minutes; MINUTES=n'
	@echo 'make bench     measurements, as ratios within one run'
	@echo 'make bench-speed  the engine beside llama.cpp (docs/benchmarks.md)'
	@echo 'make lint, format, golden, install, uninstall, dist, clean'
	@echo 'MODE=release|debug|asan|tsan|coverage   V=1 shows commands'

-include $(OBJ:.o=.d) $(wildcard $(B)/tests/*/*.d) $(wildcard $(B)/*/main.d)
