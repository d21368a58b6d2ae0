package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// plainPath matches what a shell takes as it is written. The CLI does not quote the program before its shell.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)

// DefaultDir is where the sockets of a supervisor of this user lie: in the user's runtime folder if there is one,
// else under /tmp. Neither is long.
func DefaultDir() string {
	uid := strconv.Itoa(os.Getuid())
	runtime := filepath.Join("/run/user", uid)
	if checkPrivate(runtime) == nil {
		return filepath.Join(runtime, "claudeops-gate")
	}
	return "/tmp/claudeops-gate-" + uid
}

// prepareDir makes the folder, and refuses one that others could have made or written to. One that was only opened for
// looking, as walls do it for the agent's user, is closed again.
func prepareDir(dir string) error {
	if !plainPath.MatchString(dir) {
		return fmt.Errorf("the folder of the guard's sockets must be an absolute path of letters, digits and ._-, not %q", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make the folder of the guard's sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the folder of the guard's sockets: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.IsDir() && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o022 == 0 {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
			return fmt.Errorf("close the folder of the guard's sockets: %w", err)
		}
	}
	return checkPrivate(dir)
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
