package gate

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

// abandon makes the folder of a session whose supervisor was killed.
func abandon(t *testing.T, dir string, socket, link bool) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	if link {
		must(t, os.Symlink("/bin/true", filepath.Join(dir, client.ShellName)))
	}
	if !socket {
		return
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, client.SocketName)})
	must(t, err)
	l.SetUnlinkOnClose(false) // a process that is killed does not unlink
	must(t, l.Close())
}

// bound makes the folder of a session whose supervisor is between binding its socket and listening to it.
func bound(t *testing.T, dir string) {
	t.Helper()
	abandon(t, dir, true, false) // to connect is refused, just as before anybody listens
	must(t, os.Rename(filepath.Join(dir, client.SocketName), filepath.Join(dir, openingName)))
}

func TestDeadDockerSocketsAreSweptAway(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	hourAgo := time.Now().Add(-time.Hour)
	for _, name := range []string{"d16-1", "d17-1"} {
		dir := filepath.Join(f.gate.o.Dir, name)
		abandon(t, dir, true, false)
		must(t, os.Rename(filepath.Join(dir, client.SocketName), filepath.Join(dir, dockerSocket)))
		if name == "d16-1" {
			must(t, os.Chtimes(dir, hourAgo, hourAgo))
		}
	}
	f.gate.o.Clock = time.Now
	if n, err := f.gate.Sweep(t.Context()); err != nil || n != 1 {
		t.Errorf("swept %d: %v", n, err)
	}
	if _, err := os.Lstat(filepath.Join(f.gate.o.Dir, "d17-1")); err != nil {
		t.Errorf("one that may be opening is gone: %v", err)
	}
}

func TestASessionThatIsOpeningIsNotSweptAway(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	young, old := filepath.Join(f.gate.o.Dir, "13-1"), filepath.Join(f.gate.o.Dir, "14-1")
	bound(t, young)
	bound(t, old)
	hourAgo := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(old, hourAgo, hourAgo))
	if n, err := f.gate.Sweep(t.Context()); err != nil || n != 1 {
		t.Errorf("swept %d: %v", n, err)
	}
	if _, err := os.Lstat(filepath.Join(young, openingName)); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
	if _, err := os.Lstat(old); err == nil {
		t.Error("what never opened is left")
	}
}

// Supervisors of one user share the folder and sweep it whenever they start.
func TestSessionsOpenWhileOthersSweep(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	stop := make(chan struct{})
	var sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := f.gate.Sweep(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range 50 {
		s, err := f.gate.Open(t.Context(), ops.Session{ID: ops.SessionID(100 + i), Tier: ops.Tier1}, guard.Facts{}, nil)
		if err != nil {
			t.Error(err)
			break
		}
		conn, err := net.Dial("unix", s.Socket())
		if err != nil {
			t.Errorf("nobody listens: %v", err)
		} else {
			_ = conn.Close()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	sweepers.Wait()
}

func TestOnlyTheDeadAreSweptAway(t *testing.T) {
	t.Parallel()
	f := open(t, nil) // a living session
	dir := f.gate.o.Dir
	abandon(t, filepath.Join(dir, "7-123"), true, true)
	abandon(t, filepath.Join(dir, "8-123"), true, false)
	abandon(t, filepath.Join(dir, "9-1"), false, true)  // young: it may be opening
	abandon(t, filepath.Join(dir, "10-1"), false, true) // old
	abandon(t, filepath.Join(dir, "11-1"), true, true)
	abandon(t, filepath.Join(dir, "notes"), true, true)
	old := time.Now().Add(-time.Hour)
	for _, err := range []error{
		os.Chtimes(filepath.Join(dir, "10-1"), old, old),
		os.WriteFile(filepath.Join(dir, "11-1", "mine.txt"), nil, 0o600), // something no session puts there
		os.WriteFile(filepath.Join(dir, "12-1"), nil, 0o600),
	} {
		must(t, err)
	}
	f.gate.o.Clock = time.Now
	n, err := f.gate.Sweep(t.Context())
	if err != nil || n != 3 {
		t.Errorf("swept %d: %v", n, err)
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	want := []string{"11-1", "12-1", "9-1", filepath.Base(filepath.Dir(f.Socket())), "notes"}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("left are %q, want %q", names, want)
	}
	if a := f.hooked("toolu_1", "ls"); a.Verdict != client.Allow {
		t.Errorf("the living session answers %+v", a)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
