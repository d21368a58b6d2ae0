//go:build race

package watch_test

// The race detector makes the database ten times as slow; `make test-all` runs the same tests again without it.
const veryMany = 10_000
