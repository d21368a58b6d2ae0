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
