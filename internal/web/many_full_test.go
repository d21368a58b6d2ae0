//go:build !race

package web_test

const veryMany = 40_000
