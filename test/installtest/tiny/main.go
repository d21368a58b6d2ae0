// Command tiny stands in for the program in the tests of a release. It is built in a moment, and has a module of others in it.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "--version":
		fmt.Fprintf(os.Stdout, "claudeops 1.2.3 (tiny, pages of %d bytes)\n", unix.Getpagesize())
	case len(os.Args) > 2 && os.Args[1] == "completion":
		fmt.Fprintln(os.Stdout, "# completions for", os.Args[2])
	}
}
