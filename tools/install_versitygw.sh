#!/bin/sh
# Builds the S3 server that the tests run against into the cache. Needs Go; takes about two minutes.
set -eu

version=v1.8.0
bin="${DELVEC_CACHE:-$HOME/.cache/delvec}/bin"
stamp="$bin/versitygw.version"

if [ -x "$bin/versitygw" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version" ]; then
    echo "versitygw $version is already in $bin"
    exit 0
fi
if ! command -v go >/dev/null 2>&1; then
    echo "versitygw needs Go to be built, and there is no 'go' on the PATH: the S3 tests will be skipped" >&2
    exit 1
fi
mkdir -p "$bin"
GOBIN="$bin" go install "github.com/versity/versitygw/cmd/versitygw@$version"
echo "$version" > "$stamp"
echo "versitygw $version installed in $bin"
