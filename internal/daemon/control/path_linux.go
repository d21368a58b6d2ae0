package control

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// shortPath names the socket through a descriptor of its folder, because the path of a socket is limited to 107 bytes.
func shortPath(stateDir string) (string, func(), error) {
	fd, err := unix.Open(stateDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketName), func() { _ = unix.Close(fd) }, nil
}
