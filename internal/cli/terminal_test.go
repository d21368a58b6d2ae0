package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pty is a terminal of 60 columns.
func pty(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = slave.Close() })
	must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}))
	return slave
}

func TestColorsAreOnlyForTerminalsThatWantThem(t *testing.T) {
	terminal := pty(t)
	for _, tt := range []struct {
		name    string
		noColor bool
		environ []string
		color   bool
	}{
		{"a terminal", false, []string{"TERM=xterm"}, true},
		{"--no-color", true, nil, false},
		{"NO_COLOR", false, []string{"NO_COLOR=1"}, false},
		{"an empty NO_COLOR", false, []string{"NO_COLOR="}, true},
		{"a dumb terminal", false, []string{"TERM=dumb"}, false},
	} {
		if s := screenOf(terminal, tt.noColor, tt.environ); s.color != tt.color || s.width != 60 || s.now.IsZero() {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
	if s := screenOf(&strings.Builder{}, false, nil); s.color || s.width != 0 || !s.now.IsZero() {
		t.Errorf("a pipe: %+v", s)
	}
}
