package cycle

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openTries bounds how often a kernel may say that the folder changed under it.
const openTries = 10

// openHandoff opens the handoff file in the folder without following any link.
func openHandoff(folder, flags int) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range openTries {
		fd, err = unix.Openat2(folder, handoffName, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // an old kernel, or a container that forbids it
			return openPlain(folder, flags)
		}
		return fd, err
	}
	return fd, err
}
