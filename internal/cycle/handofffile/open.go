package handofffile

import "golang.org/x/sys/unix"

// openPlain is as good for a single name: the flags forbid to follow a link there.
func openPlain(folder, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(folder, Name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
