//go:build !race

package store_test

// Both exceed the number of parameters that a statement may have.
const (
	manyInFile   = 40_000
	manyOnServer = 10_000 // a busy machine that tests needs more than the limit of a transaction for more
)
