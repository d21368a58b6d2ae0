package confine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// run tries the network from inside and returns what is broken. It stays on the calling thread, which is the one behind the wall, and
// sends nothing but requests that the supervisor refuses.
func (t *NetworkTrial) run() []string {
	var broken []string
	for _, request := range t.Requests {
		if answer := t.exchange(request); !strings.HasPrefix(answer, "HTTP/1.1 403 ") {
			broken = append(broken, fmt.Sprintf("the network did not refuse %q: %.60q", request, answer))
		}
	}
	if t.Name != "" && !t.unknown() {
		broken = append(broken, "the network knows the name "+t.Name)
	}
	fd, err := connect(t.Address, 9)
	_ = syscall.Close(fd)
	if err == nil || errors.Is(err, syscall.EINPROGRESS) || errors.Is(err, syscall.ETIMEDOUT) {
		broken = append(broken, fmt.Sprintf("the address %v is not out of reach", t.Address))
	}
	if keepsCapability() { // a low port would tell nothing: in containers anybody may listen on it
		broken = append(broken, "the session kept a capability")
	}
	if fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.IPPROTO_ICMP); err == nil {
		_ = syscall.Close(fd)
		broken = append(broken, "the session can open raw sockets")
	}
	return broken
}

// connect opens a connection whose steps take at most some seconds.
func connect(host [4]byte, port int) (fd int, err error) {
	_, err = again(func() (int, error) {
		fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		limit(fd, 2)
		if err = syscall.Connect(fd, &syscall.SockaddrInet4{Addr: host, Port: port}); errors.Is(err, syscall.EINTR) {
			_ = syscall.Close(fd)
		}
		return 0, err
	})
	return fd, err
}

// again repeats a call that a signal interrupted: Go's runtime sends some, and the kernel does not resume calls that have a time limit.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

func limit(fd int, seconds int64) {
	for _, what := range []int{syscall.SO_SNDTIMEO, syscall.SO_RCVTIMEO} {
		_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, what, &syscall.Timeval{Sec: seconds})
	}
}

// exchange sends a request to the supervisor's proxy and returns the beginning of the answer.
func (t *NetworkTrial) exchange(request string) string {
	fd, err := connect(t.Host, t.Proxy)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = syscall.Close(fd) }()
	limit(fd, 10) // the relay may just be starting
	text := []byte(request + "\r\nHost: trial\r\nConnection: close\r\n\r\n")
	if _, err := again(func() (int, error) { return syscall.Write(fd, text) }); err != nil {
		return err.Error()
	}
	answer := make([]byte, 64)
	n, err := again(func() (int, error) { return syscall.Read(fd, answer) })
	if err != nil {
		return err.Error()
	}
	return string(answer[:n])
}

// unknown reports whether the resolver says that the name does not exist.
func (t *NetworkTrial) unknown() bool {
	question := []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0} // one question
	for part := range strings.SplitSeq(t.Name, ".") {
		question = append(append(question, byte(len(part))), part...) //nolint:gosec // a short name
	}
	question = append(question, 0, 0, 1, 0, 1)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	limit(fd, 10)
	if syscall.Connect(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: dnsPort}) != nil {
		return false
	}
	if _, err := again(func() (int, error) { return syscall.Write(fd, question) }); err != nil {
		return false
	}
	answer := make([]byte, 512)
	n, err := again(func() (int, error) { return syscall.Read(fd, answer) })
	const notFound = 3
	return err == nil && n > 3 && answer[3]&0xf == notFound
}
