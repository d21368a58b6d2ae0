package gate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"claudeops/internal/guard/client"
)

// TestMain lets the test binary stand in for the program: as the hook and as the shell.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == client.ShellName:
		os.Exit(client.Shell(os.Args[1:], os.Environ(), os.Args[0], os.Stderr)) //nolint:forbidigo // as the program does
	case len(os.Args) == 4 && slices.Equal(os.Args[1:3], []string{"guard", "hook"}):
		os.Exit(client.Hook(os.Stdin, os.Stdout, os.Stderr, os.Args[3]))
	}
	os.Exit(m.Run())
}
