package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// plainPath matches what a shell takes as it is written. The CLI does not quote the program before its shell.
var plainPath = ops.Pattern(`^/[A-Za-z0-9/._-]+$`)

// DefaultDir is where the sockets of a supervisor of this user lie: in the user's runtime folder if there is one,
// else under /tmp. Neither is long.
func DefaultDir() string {
	runtime := filepath.Join("/run/user", strconv.Itoa(os.Getuid()))
	if checkPrivate(runtime) == nil {
		return filepath.Join(runtime, "claudeops-gate")
	}
	return sharedDir("/tmp")
}

// sharedDir is this user's folder in a folder where every user may make one. Another user may have taken the usual name
// beforehand; then it is a folder with a name that nobody could know. Once made, that one is used by all later starts, so
// that all supervisors of this user agree.
func sharedDir(temp string) string {
	name := "claudeops-gate-" + strconv.Itoa(os.Getuid())
	usual := filepath.Join(temp, name)
	if ownDir(usual) {
		return usual
	}
	others, err := filepath.Glob(usual + "-*")
	if err == nil {
		for _, dir := range others { // sorted
			if ownDir(dir) {
				return dir
			}
		}
	}
	if _, err := os.Lstat(usual); errors.Is(err, fs.ErrNotExist) {
		return usual
	}
	dir, err := os.MkdirTemp(temp, name+"-")
	if err != nil {
		return usual // which is refused with the reason when it is prepared
	}
	return dir
}

// ownDir reports whether dir is a folder of this user that no other user can write to.
func ownDir(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// prepareDir makes the folder, and refuses one that others could have made or written to. One that was only opened for
// looking, as walls do it for the agent's user, is closed again.
func prepareDir(dir string) error {
	if !plainPath().MatchString(dir) {
		return fmt.Errorf("the folder of the guard's sockets must be an absolute path of letters, digits and ._-, not %q", dir)
	}
	if err := checkParent(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make the folder of the guard's sockets: %w", err)
	}
	if ownDir(dir) {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
			return fmt.Errorf("close the folder of the guard's sockets: %w", err)
		}
	}
	return checkPrivate(dir)
}

// checkParent refuses a folder in which others could replace ours.
func checkParent(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the parent of the guard's sockets: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("every user may replace folders in %s: set its sticky bit (chmod +t) or choose another folder", dir)
	}
	return nil
}

func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the folder of the guard's sockets: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no folder: remove it", dir)
	case !ok || int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to another user: remove it or choose another folder", dir)
	case info.Mode().Perm() != 0o700:
		return fmt.Errorf("%s has the mode %04o: set it to 0700", dir, info.Mode().Perm())
	}
	return nil
}

const (
	// sweepAge is how old a folder without a socket must be: a younger one may just be opening.
	sweepAge = time.Minute
	// probeLimit bounds the question whether somebody listens.
	probeLimit = time.Second
)

// sessionFolder matches the folders Open makes, and those in which sessions have their Docker socket.
var sessionFolder = ops.Pattern(`^d?[0-9]+-[0-9]+$`)

// dockerSocket is the name of that one.
const dockerSocket = "docker.sock"

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
			err = os.RemoveAll(dir)
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
	socket := ""
	for _, e := range entries {
		switch {
		case (e.Name() == client.SocketName || e.Name() == dockerSocket) && e.Type() == fs.ModeSocket:
			socket = e.Name()
		case (e.Name() == client.ShellName || e.Name() == client.ActName) && e.Type() == fs.ModeSymlink:
		case e.Name() == confine.ShellsFolder && e.IsDir():
		case e.Name() == openingName && e.Type() == fs.ModeSocket:
		default:
			return false, nil
		}
	}
	old := g.o.Clock().Sub(info.ModTime()) > sweepAge
	if socket == "" {
		return old, nil
	}
	dialer := net.Dialer{Timeout: probeLimit}
	conn, err := dialer.DialContext(ctx, "unix", filepath.Join(dir, socket))
	if err == nil {
		return false, conn.Close()
	}
	// A gate's socket has its name when somebody listens; the other one may just be opening.
	return errors.Is(err, syscall.ECONNREFUSED) && (old || socket == client.SocketName), nil
}
