// Package client holds the two programs an agent's CLI calls before it does something: the hook and
// the shell. They decide nothing: they hand what they were given to the supervisor and do as it says.
// Without an answer they refuse. The package uses the standard library and confine alone, so that a
// program that only asks starts fast.
package client
