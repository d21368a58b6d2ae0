//go:build !race

package watch_test

const veryMany = 40_000
