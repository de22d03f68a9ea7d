#!/bin/sh
# What only starts other tools: `sh crates/xtask/tools.sh CASE …` in the root of the workspace. Prints each command.
set -eu
PS4='$ '
root=$PWD
cargo=${CARGO:-cargo}
# The artifacts of packages that are workspaces of their own. Cargo removes nothing of one for another.
apart=$root/target/apart
# The Python of an environment with the tests, and of one that has the wheel and what it depends on.
python=$root/target/python/bin/python
fresh=$root/target/python-fresh/bin/python
build_judge() {
    mkdir -p target/histories
    # Several soaks may begin at a time.
    (cd tests/histories && go build -mod=readonly -o "$root/target/histories/judge.$$" .)
    mv "target/histories/judge.$$" target/histories/judge
}
set -x
case $1 in
# Installs packages with apt. `env` sets the variable, because sudo does not pass its own environment on.
apt)
    shift
    sudo=
    [ "$(id -u)" = 0 ] || sudo=$(command -v sudo || true)
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get update
    # Another check may install something now.
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@"
    ;;
# Fetches the wheel NAME==VERSION into a folder. The program in it does not depend on the Python that fetches it.
wheel)
    of="$(uname -s) $(uname -m)"
    case $of in
    Linux*)
        arch=${of#Linux }
        anywhere="--implementation=cp --python-version=3.11 --abi=cp311 --platform=manylinux2014_$arch"
        anywhere="$anywhere --platform=manylinux_2_17_$arch --platform=manylinux_2_28_$arch"
        ;;
    *) anywhere= ;;
    esac
    python3 -m pip install --quiet --no-deps --upgrade --disable-pip-version-check --only-binary=:all: \
        --timeout=60 --retries=2 $anywhere --target "$3" "$2"
    ;;
# Builds the wheel of the Python client from the source distribution, and installs it in two virtual environments: one
# with the packages of the tests, and a fresh one with the wheel and what it depends on. The wheel is built without
# isolation, so its build tool is among the packages.
python)
    pip='-m pip install --quiet --disable-pip-version-check'
    [ -e "$python" ] || python3 -m venv target/python
    "$python" $pip 'redis>=5' 'pytest>=8' 'mypy>=1.11' 'gevent>=24' 'eventlet>=0.36' 'build>=1' 'hatchling>=1.24'
    rm -rf target/python-dist
    "$python" -m build --no-isolation --outdir target/python-dist clients/python
    "$python" $pip --no-deps --force-reinstall target/python-dist/*.whl
    python3 -m venv --clear target/python-fresh
    "$fresh" $pip target/python-dist/*.whl
    ;;
# Builds the programs of other libraries in `tests/peers/libraries`: redsync and redislock, node-redlock, Redisson.
go)
    mkdir -p target/peers/go
    cd tests/peers/libraries/go
    go build -mod=readonly -o "$root/target/peers/go/peer" .
    ;;
npm)
    node --version
    mkdir -p target/peers/node
    cp tests/peers/libraries/node/package.json tests/peers/libraries/node/peer.js target/peers/node
    cd target/peers/node
    # The versions stand in `package.json`. A lock file would name the registry of this machine.
    npm install --no-package-lock --no-audit --no-fund
    ;;
maven)
    java --version
    cd tests/peers/libraries/java
    mvn --quiet --batch-mode "-Dpeer.target=$root/target/peers/java" package
    ;;
# Builds all pages, and finds links from those of `redlatch` to other crates of the family, which a reader of these pages
# does not know. Links to sources are none. Pages of removed items, and their links, would stay without `rm`.
documentation)
    pages=${CARGO_TARGET_DIR:-target}/doc
    rm -rf "$pages"
    RUSTDOCFLAGS='--deny warnings' nice -n 4 "$cargo" doc --workspace --no-deps --all-features
    cd "$pages/redlatch"
    [ -f index.html ]
    found=0
    grep -rEo --include='*.html' 'href="(\.\./)+redlatch_[^"]*"' . || found=$?
    # 1: no line; more: an error.
    [ $found = 1 ]
    ;;
# Renders the book with the mdBook of the `PATH`, or with one that is built here, now or before.
book)
    mdbook=mdbook
    if ! mdbook --version; then
        mdbook=target/tools/bin/mdbook
        [ -x $mdbook ] || cargo install mdbook --locked --version 0.5.4 --no-default-features --features search \
            --root target/tools
    fi
    $mdbook build docs/book
    ;;
# Tests the judge of histories, and builds it.
judge)
    build_judge
    cd tests/histories
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ]
    go vet .
    go test .
    ;;
# Runs the tests of the Python client on the first of these SERVERS.
pytest)
    cd clients/python
    PYTHONDONTWRITEBYTECODE=1 REDLATCH_FRESH_PYTHON=$fresh REDLATCH_TEST_SERVERS=$2 \
        "$python" -m pytest -q -p no:cacheprovider
    ;;
# PROGRAM SERVERS ROUNDS: runs workers of both clients on one server until each kind of lock was held that often, and
# checks the history of their holds.
beside-python)
    REDLATCH_TEST_SERVERS=$3 "$2" --python "$python" --rounds "$4"
    ;;
# PROGRAM SERVERS ROUNDS PROCESSES [--only LIBRARY]…: runs locks of other libraries beside `redlatch-compat`. Each name is
# held that often, and that many processes are replaced one by one.
beside-libraries)
    program=$2 servers=$3 rounds=$4 processes=$5
    shift 5
    REDLATCH_TEST_SERVERS=$servers "$program" libraries --programs "$root/target/peers" --python "$python" \
        --rounds "$rounds" --processes "$processes" "$@"
    ;;
# Runs the simulator, or builds it, with some optimisation: a debug build runs too few seeds per second, and more
# optimisation costs more time than its seeds save. It has the checks of an unoptimised build, and runs behind tests that
# meet real clocks. The flag compiles the switches into the library by which rules are broken. In a shared target
# directory, the different flags would make other builds start anew.
sim | build-sim)
    export RUSTFLAGS="${RUSTFLAGS-} --cfg redlatch_sim"
    export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OPT_LEVEL=1
    simulator='--quiet --release --package redlatch-sim --target-dir target/sim'
    case $1 in
    sim)
        shift
        nice -n 4 "$cargo" run $simulator -- "$@"
        ;;
    *) nice -n 4 "$cargo" build $simulator ;;
    esac
    ;;
# Runs the soak, which needs the judge of histories, or builds it. The build is not optimised: the soak mostly waits for
# servers, and an unoptimised build checks its arithmetic.
soak)
    shift
    build_judge
    "$cargo" run --quiet --package redlatch-soak -- "$@"
    ;;
build-soak)
    "$cargo" build --package redlatch-soak
    ;;
# Runs the benchmarks, built with optimisation.
bench)
    shift
    "$cargo" run --quiet --release --package redlatch-bench -- "$@"
    ;;
# Records the vectors of `docs/contributing/protocol.md` on the embedded server, into the folder `vectors`. A test fails
# while the folder has others.
vectors)
    "$cargo" run --quiet --package redlatch-vectors
    ;;
# Runs code that threads share under many schedules. A failure prints its schedule. To replay the failure, run the printed
# command with the schedule in `REDLATCH_SCHEDULE` and the name of the test. Optimising takes longer than it saves.
threads)
    RUSTFLAGS="${RUSTFLAGS-} --cfg shuttle" nice -n 4 "$cargo" test --package redlatch-core --lib \
        --target-dir target/threads threads:: --config profile.dev.package.redlatch-core.opt-level=0
    ;;
# Checks the format and the lints of a package that is a workspace of its own, as the gate does for members. The laws of
# the parsers exist only with the flag.
lint)
    cd "$2"
    "$cargo" fmt --check
    targets=--all-targets
    if [ "$2" = fuzz ]; then
        targets=--bins
        export RUSTFLAGS='--cfg fuzzing'
    fi
    "$cargo" clippy --locked $targets --target-dir "$apart" -- --deny warnings
    ;;
databases)
    tests/databases/run "$apart"
    ;;
recipe)
    cd examples/recipes
    "$cargo" run --locked --bin "$2" --target-dir "$apart"
    ;;
# Runs a target of `fuzz` for a minute with the nightly compiler, since a stable one counts no branches. A fault ends the
# target, and its input is printed. No code of ours is unsafe, so a sanitizer would find nothing.
fuzz)
    fuzz='rustup run nightly cargo fuzz'
    if ! $fuzz --version; then
        echo 'a tool is missing: rustup toolchain install nightly && cargo install --locked cargo-fuzz' >&2
        exit 1
    fi
    mkdir -p "$apart/found/$2"
    $fuzz run --sanitizer none --target-dir "$apart/fuzz" "$2" "$apart/found/$2" "$root/fuzz/corpus/$2" \
        -- -max_total_time=60 -max_len=1024 -timeout=10
    ;;
*) exit 2 ;;
esac
