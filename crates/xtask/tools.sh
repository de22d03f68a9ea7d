#!/bin/sh
# What only starts other tools: `sh crates/xtask/tools.sh CASE …` in the root of the workspace. Prints each command.
set -eu
PS4='$ '
root=$PWD
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
    python=target/python/bin/python
    fresh=target/python-fresh/bin/python
    pip='-m pip install --quiet --disable-pip-version-check'
    [ -e $python ] || python3 -m venv target/python
    $python $pip 'redis>=5' 'pytest>=8' 'mypy>=1.11' 'gevent>=24' 'eventlet>=0.36' 'build>=1' 'hatchling>=1.24'
    rm -rf target/python-dist
    $python -m build --no-isolation --outdir target/python-dist clients/python
    $python $pip --no-deps --force-reinstall target/python-dist/*.whl
    python3 -m venv --clear target/python-fresh
    $fresh $pip target/python-dist/*.whl
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
# Finds links from the documentation of `redlatch` to other crates of the family, in a folder of pages. A reader of these
# pages knows no other crate of the family. Links to sources are none.
facade)
    cd "$2/redlatch"
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
    mkdir -p target/histories
    cd tests/histories
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ]
    go vet .
    go test .
    go build -mod=readonly -o "$root/target/histories/judge" .
    ;;
*) exit 2 ;;
esac
