//go:build race

package store_test

// The race detector makes writing rows many times as slow. `make test-all` runs the same test again without it, with as many rows as exceed
// the limits of the databases.
const (
	manyInFile   = 2_000
	manyOnServer = 2_000
)
