package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/guard/wall/network"
)

// Another supervisor of the same user, or this one while it reads its configuration again, may just be opening a session's network.
func TestFoldersOfNetworksAreLeftToThoseWhoUseThem(t *testing.T) {
	c := &config.Config{StateDir: t.TempDir()}
	c.Guard.Sandbox.UID = 1
	n := &networks{g: &ground{Options: Options{Config: c}}}
	folder := func(name string) string {
		dir := filepath.Join(gateDir(c), name)
		must(t, os.MkdirAll(dir, 0o700))
		return dir
	}
	listen := func(dir string) net.Listener {
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, network.SocketName))
		must(t, err)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		return l
	}
	opening, left, dead, served := folder("n1-1"), folder("n2-1"), folder("n3-1"), folder("n4-1")
	must(t, os.Chtimes(left, time.Now(), time.Now().Add(-time.Hour)))
	_ = listen(dead).Close()
	l := listen(served)
	defer func() { _ = l.Close() }()
	n.sweep()
	for dir, want := range map[string]bool{opening: true, left: false, dead: false, served: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %t", filepath.Base(dir), err == nil)
		}
	}
}
