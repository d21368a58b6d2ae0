package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// The system calls of Landlock have the same numbers on every architecture.
const (
	sysCreateRuleset = 444
	sysAddRule       = 445
	sysRestrictSelf  = 446

	rulesetVersion = 1 // asks for the version of Landlock
	pathBeneath    = 1
	portRule       = 2
)

// The rights of Landlock, in the order of their bits.
const (
	rightExecute uint64 = 1 << iota
	rightWriteFile
	rightReadFile
	rightReadDir
	rightRemoveDir
	rightRemoveFile
	rightMakeChar
	rightMakeDir
	rightMakeReg
	rightMakeSock
	rightMakeFifo
	rightMakeBlock
	rightMakeSym
	rightRefer    // since version 2
	rightTruncate // since version 3
	rightIoctlDev // since version 5
)

const (
	scopeAbstractSocket uint64 = 1 << iota // since version 6
	scopeSignal
)

const (
	readRights  = rightExecute | rightReadFile | rightReadDir
	writeRights = readRights | rightWriteFile | rightRemoveDir | rightRemoveFile | rightMakeDir | rightMakeReg | rightMakeSock |
		rightMakeFifo | rightMakeSym | rightRefer | rightTruncate | rightIoctlDev
	fileRights = rightExecute | rightWriteFile | rightReadFile | rightTruncate | rightIoctlDev
	allRights  = writeRights | rightMakeChar | rightMakeBlock
)

// ScopedVersion is the first version of Landlock that keeps signals inside the wall, PortsVersion the first that knows TCP ports.
const (
	ScopedVersion = 6
	PortsVersion  = 4
)

// connectTCP is the right to connect to a TCP port.
const connectTCP uint64 = 1 << 1

// LandlockVersion is the version of Landlock that the kernel has; 0 without Landlock.
func LandlockVersion() int {
	v, _, errno := syscall.RawSyscall(sysCreateRuleset, 0, 0, rulesetVersion)
	if errno != 0 {
		return 0
	}
	return int(v)
}

type rulesetAttr struct {
	fs, net, scoped uint64
}

// handled are the rights and scopes that a version of Landlock knows, and the length of the structure it takes.
func handled(version int) (attr rulesetAttr, size uintptr) {
	attr, size = rulesetAttr{fs: allRights}, 8
	switch {
	case version < 2:
		attr.fs &^= rightRefer | rightTruncate | rightIoctlDev
	case version < 3:
		attr.fs &^= rightTruncate | rightIoctlDev
	case version < 5:
		attr.fs &^= rightIoctlDev
	}
	if version >= PortsVersion {
		size = 16
	}
	if version >= ScopedVersion {
		attr.scoped, size = scopeAbstractSocket|scopeSignal, 24
	}
	return attr, size
}

var errNoLandlock = errors.New("this kernel has no Landlock")

// restrictFiles puts the calling thread behind the file rules of a wall.
func restrictFiles(w *Wall) error {
	version := LandlockVersion()
	if version < ScopedVersion && !w.Best {
		return errNoLandlock
	}
	if version == 0 {
		return nil
	}
	attr, size := handled(version)
	if len(w.Ports) > 0 {
		if version < PortsVersion {
			return errNoLandlock
		}
		attr.net = connectTCP
	}
	fd, _, errno := syscall.RawSyscall(sysCreateRuleset, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock rules: %w", errno)
	}
	defer func() { _ = syscall.Close(int(fd)) }()
	// The names in every folder can be listed: what must not be read is the content of files.
	if err := allow(int(fd), "/", attr.fs&rightReadDir, false); err != nil {
		return err
	}
	for _, path := range w.Read {
		if err := w.open(int(fd), path, attr.fs&readRights, false); err != nil {
			return err
		}
	}
	for _, path := range w.Write {
		if err := allow(int(fd), path, attr.fs&writeRights, false); err != nil {
			return err
		}
	}
	for _, place := range w.Lent {
		if err := lend(int(fd), place, attr.fs&writeRights); err != nil {
			return err
		}
	}
	for _, port := range w.Ports {
		rule := struct{ access, port uint64 }{connectTCP, uint64(port)} //nolint:gosec // a port
		_, _, errno := syscall.RawSyscall6(sysAddRule, fd, portRule, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		if errno != 0 {
			return fmt.Errorf("allow port %d: %w", port, errno)
		}
	}
	if _, _, errno := syscall.RawSyscall(sysRestrictSelf, fd, 0, 0); errno != 0 {
		return fmt.Errorf("apply Landlock rules: %w", errno)
	}
	return nil
}

// ruleAttr has no padding in the kernel: 8 and 4 bytes.
type ruleAttr struct {
	access uint64
	parent int32
}

const openPath = 0x200000 // O_PATH

// mostEntries bounds how many entries of one folder get a rule of their own. What is beyond it in a folder that also holds something
// closed cannot be read.
const mostEntries = 1000

// open allows something to be read but for what is closed: Landlock can only allow, so "all but" is everything beside it. Links are left
// out, because a rule for a link is a rule for its target. Whether others may read an entry is asked of the very file that gets the
// rule: it may be about to take the place of a closed one.
func (w *Wall) open(ruleset int, path string, rights uint64, others bool) error {
	if _, closed := slices.BinarySearch(w.Closed, path); closed {
		return nil
	}
	below := path + "/"
	if i, _ := slices.BinarySearch(w.Closed, below); i == len(w.Closed) || !strings.HasPrefix(w.Closed[i], below) {
		return allow(ruleset, path, rights, others)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil //nolint:nilerr // what is not there, or not for this user, needs no rule
	}
	others = others || slices.Contains(w.Others, path)
	for _, entry := range entries[:min(len(entries), mostEntries)] {
		if entry.Type()&os.ModeSymlink == 0 {
			if err := w.open(ruleset, below+entry.Name(), rights, others); err != nil {
				return err
			}
		}
	}
	return nil
}

// readable reports whether others may read a file, or enter a folder.
func readable(mode uint32) bool {
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		return mode&syscall.S_IXOTH != 0
	}
	return mode&syscall.S_IROTH != 0
}

// allow gives rights to a path. With others only if those may read it.
func allow(ruleset int, path string, rights uint64, others bool) error {
	fd, err := syscall.Open(path, openPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // what is not there, or not for this user, needs no rule
	}
	defer func() { _ = syscall.Close(fd) }()
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "look at", Path: path, Err: err}
	}
	if others && !readable(stat.Mode) {
		return nil
	}
	return addRule(ruleset, fd, path, &stat, rights)
}

func addRule(ruleset, fd int, path string, stat *syscall.Stat_t, rights uint64) error {
	if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		rights &= fileRights
	}
	rule := ruleAttr{access: rights, parent: int32(fd)} //nolint:gosec // a file descriptor is small
	_, _, errno := syscall.RawSyscall6(sysAddRule, uintptr(ruleset), pathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return &os.PathError{Op: "allow", Path: path, Err: errno}
	}
	return nil
}

// openExactly opens a path in which nothing is a link.
func openExactly(path string) (fd int, stat syscall.Stat_t, err error) {
	fd, err = syscall.Open("/", openPath|syscall.O_CLOEXEC, 0)
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err != nil {
			break
		}
		above := fd
		fd, err = syscall.Openat(above, name, openPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
		_ = syscall.Close(above)
	}
	if err != nil {
		return -1, stat, &os.PathError{Op: "open without links", Path: path, Err: err}
	}
	if err = syscall.Fstat(fd, &stat); err == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		err = syscall.ELOOP
	}
	if err != nil {
		return -1, stat, errors.Join(&os.PathError{Op: "look at", Path: path, Err: err}, syscall.Close(fd))
	}
	return fd, stat, nil
}

// Find says what a file or folder is now. A link anywhere in its path is an error.
func Find(path string) (Place, error) {
	fd, stat, err := openExactly(path)
	if err != nil {
		return Place{}, err
	}
	return Place{Path: path, Device: stat.Dev, Inode: stat.Ino}, syscall.Close(fd)
}

// lend gives rights to a place, unless it is no longer what it was.
func lend(ruleset int, place Place, rights uint64) error {
	fd, stat, err := openExactly(place.Path)
	if err != nil {
		return nil //nolint:nilerr // what is not there any more needs no rule
	}
	defer func() { _ = syscall.Close(fd) }()
	if stat.Dev != place.Device || stat.Ino != place.Inode {
		return nil
	}
	return addRule(ruleset, fd, place.Path, &stat, rights)
}
