// Package installtest makes a release of a very small program with script/release and installs it with packaging/install.sh from a
// server on loopback, which is well or does one thing wrong.
package installtest
