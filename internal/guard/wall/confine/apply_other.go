//go:build !linux

package confine

import (
	"errors"
	"io"
)

// Word is the first argument that makes this program confine itself and become another one.
const Word = "confine"

// Apply fails: only Linux has these walls.
func Apply(*Wall) error { return errors.New("only Linux has these walls") }

// Main fails for the same reason.
func Main([]string, []string, io.Writer, io.Writer) int { return 125 }

// OnlyRead fails for the same reason.
func OnlyRead([]string, []string, io.Writer) int { return 125 }

// Arguments fails for the same reason.
func Arguments(string, Plan, string, []string) ([]string, error) {
	return nil, errors.New("only Linux has these walls")
}

// ScopedVersion is the first version of Landlock that keeps signals inside the wall.
const ScopedVersion = 6

// PortsVersion is the first that knows TCP ports.
const PortsVersion = 4

// LandlockVersion is 0: there is none.
func LandlockVersion() int { return 0 }

// SeccompAvailable reports whether the filter can be set.
func SeccompAvailable() bool { return false }

// Find fails: paths are opened to single commands on Linux only.
func Find(string) (Place, error) { return Place{}, errors.New("only Linux has these walls") }
