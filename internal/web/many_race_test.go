//go:build race

package web_test

// The race detector makes pages many times as slow; `make test-all` runs the same test again without it.
const veryMany = 10_000
