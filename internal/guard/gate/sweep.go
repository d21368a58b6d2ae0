package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

const (
	// sweepAge is how old a folder without a socket must be: a younger one may just be opening.
	sweepAge = time.Minute
	// probeLimit bounds the question whether somebody listens.
	probeLimit = time.Second
)

// sessionFolder matches the folders Open makes.
var sessionFolder = ops.Pattern(`^[0-9]+-[0-9]+$`)

// Sweep removes the folders of sessions whose supervisor did not get to close them, and returns how many. Several supervisors of
// one user share the folder: where somebody listens, or where anything lies that no session puts there, nothing is touched.
func (g *Gate) Sweep(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(g.o.Dir)
	if err != nil {
		return 0, fmt.Errorf("sweep gates: %w", err)
	}
	removed := 0
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !sessionFolder().MatchString(e.Name()) {
			continue
		}
		dir := filepath.Join(g.o.Dir, e.Name())
		dead, err := g.dead(ctx, dir)
		if err == nil && dead {
			err = removeSession(dir)
			if err == nil {
				removed++
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // its supervisor may just be closing it
			errs = append(errs, fmt.Errorf("sweep gate %s: %w", e.Name(), err))
		}
	}
	return removed, errors.Join(errs...)
}

// dead reports whether a folder is one of ours in which nobody listens any more.
func (g *Gate) dead(ctx context.Context, dir string) (bool, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return false, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Getuid() {
		return false, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	socket := false
	for _, e := range entries {
		switch {
		case e.Name() == client.SocketName && e.Type() == fs.ModeSocket:
			socket = true
		case (e.Name() == client.ShellName || e.Name() == client.ActName) && e.Type() == fs.ModeSymlink:
		case e.Name() == confine.ShellsFolder && e.IsDir():
		case e.Name() == openingName && e.Type() == fs.ModeSocket:
		default:
			return false, nil
		}
	}
	if !socket {
		return g.o.Clock().Sub(info.ModTime()) > sweepAge, nil
	}
	dialer := net.Dialer{Timeout: probeLimit}
	conn, err := dialer.DialContext(ctx, "unix", filepath.Join(dir, client.SocketName))
	if err == nil {
		return false, conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED), nil
}

// removeSession removes what a session put into its folder, and the folder if nothing else is in it.
func removeSession(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, confine.ShellsFolder)); err != nil {
		return err
	}
	for _, name := range []string{client.SocketName, client.ShellName, client.ActName, openingName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}
